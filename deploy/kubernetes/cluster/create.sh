# Makes the six nodes a Cluster, unless they are one.
set -e
for number in 0 1 2 3 4 5; do
  node=redis-$number.redis
  until redis-cli -h $node PING | grep -q PONG; do sleep 1; done
  set -- "$@" "$(getent hosts $node | cut -d' ' -f1):6379"
done
if redis-cli -h redis-0.redis CLUSTER INFO | grep -q 'cluster_known_nodes:1[^0-9]'; then
  exec redis-cli --cluster create "$@" --cluster-replicas 1 --cluster-yes
fi
