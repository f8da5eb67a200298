# After a start: tells this node where the others are, because pods have new addresses then. If only
# some have started anew, they find each other without this.
until redis-cli PING | grep -q PONG; do sleep 1; done
if redis-cli CLUSTER INFO | grep -q 'cluster_known_nodes:1[^0-9]'; then
  exit 0 # it belongs to no Cluster yet
fi
for number in 0 1 2 3 4 5; do
  address=$(getent hosts redis-$number.redis | cut -d' ' -f1)
  if [ -n "$address" ]; then redis-cli CLUSTER MEET "$address" 6379; fi
done
exit 0
