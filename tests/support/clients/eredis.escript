%% Ordinary use of a proxy by eredis: escript eredis.escript PORT prints its version if all replies are right.

main([Port]) ->
    application:load(eredis),
    Connect = fun() -> {ok, Client} = eredis:start_link("127.0.0.1", list_to_integer(Port)), Client end,
    [Redis, Other] = [Connect(), Connect()],
    {ok, <<"OK">>} = eredis:q(Redis, ["SET", "k", "v", "EX", 100]),
    {ok, <<"v">>} = eredis:q(Redis, ["GET", "k"]),
    {ok, <<"1">>} = eredis:q(Redis, ["HSETEX", "h", "EX", 100, "FIELDS", 1, "f", "v"]),
    {ok, <<"100">>} = eredis:q(Redis, ["HTTLFIELD", "h", "f"]),
    [{ok, <<"0">>}, {ok, <<"-1">>}] = eredis:qp(Redis, [["HSET", "h", "f", 2], ["HTTLFIELD", "h", "f"]]),
    Transaction = [["MULTI"], ["INCR", "n"], ["SADDEX", "s", 10, "m"], ["EXEC"]],
    {ok, [<<"1">>, <<"1">>]} = lists:last(eredis:qp(Redis, Transaction)),
    {error, <<"WRONGTYPE", _/binary>>} = eredis:q(Redis, ["HEXPIREFIELD", "k", "f", 1]),

    {ok, Subscription} = eredis_sub:start_link("127.0.0.1", list_to_integer(Port), ""),
    eredis_sub:controlling_process(Subscription),
    eredis_sub:subscribe(Subscription, [<<"c">>]),
    receive {subscribed, <<"c">>, Subscription} -> eredis_sub:ack_message(Subscription) end,
    {ok, <<"1">>} = eredis:q(Redis, ["PUBLISH", "c", "hello"]),
    receive {message, <<"c">>, <<"hello">>, Subscription} -> ok end,

    Self = self(),
    spawn_link(fun() -> Self ! eredis:q(Other, ["BLPOP", "l", 30], infinity) end),
    {ok, <<"1">>} = eredis:q(Redis, ["RPUSH", "l", "x"]),
    receive {ok, [<<"l">>, <<"x">>]} -> ok end,
    {ok, Version} = application:get_key(eredis, vsn),
    io:format("~s~n", [Version]).
