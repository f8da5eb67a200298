// Ordinary use of a proxy by redis-rs: redis_rs PORT ends with 0 if all replies are right, with RESP2 and RESP3.
use redis::{Commands, Connection, RedisResult};
use std::thread;

fn use_it(address: &str) -> RedisResult<()> {
    let client = redis::Client::open(address)?;
    let connect = || client.get_connection();
    let (mut redis, mut other): (Connection, Connection) = (connect()?, connect()?);
    redis::cmd("FLUSHALL").exec(&mut redis)?;
    let () = redis.set_ex("k", "v", 100)?;
    assert_eq!(redis.get::<_, String>("k")?, "v");
    let words = ["h", "EX", "100", "FIELDS", "1", "f", "v"];
    assert_eq!(redis::cmd("HSETEX").arg(&words).query::<i64>(&mut redis)?, 1);
    assert_eq!(redis::cmd("HTTLFIELD").arg(&["h", "f"]).query::<i64>(&mut redis)?, 100);
    let mut pipeline = redis::pipe();
    pipeline.hset("h", "f", 2).cmd("HTTLFIELD").arg(&["h", "f"]);
    assert_eq!(pipeline.query::<(i64, i64)>(&mut redis)?, (0, -1));
    let mut transaction = redis::pipe();
    transaction.atomic().incr("n", 1).cmd("SADDEX").arg(&["s", "10", "m"]);
    assert_eq!(transaction.query::<(i64, i64)>(&mut redis)?, (1, 1));
    redis::cmd("WATCH").arg("n").exec(&mut redis)?;
    let () = other.set("n", 7)?;
    assert_eq!(redis::pipe().atomic().incr("n", 1).query::<Option<(i64,)>>(&mut redis)?, None);
    let script = redis::Script::new("return redis.call('GET', KEYS[1]) .. ARGV[1]");
    assert_eq!(script.key("k").arg("w").invoke::<String>(&mut redis)?, "vw");

    let mut listening = connect()?;
    let mut subscription = listening.as_pubsub();
    subscription.subscribe("c")?;
    let () = redis.publish("c", "hello")?;
    assert_eq!(subscription.get_message()?.get_payload::<String>()?, "hello");

    let popped = thread::spawn(move || other.blpop::<_, (String, String)>("l", 30.0));
    let () = redis.rpush("l", "x")?;
    assert_eq!(popped.join().unwrap()?, ("l".into(), "x".into()));
    Ok(())
}

fn main() {
    let address = format!("redis://127.0.0.1:{}/", std::env::args().nth(1).unwrap());
    use_it(&address).unwrap();
    use_it(&format!("{address}?protocol=resp3")).unwrap();
}
