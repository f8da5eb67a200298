"""A client in front of several masters of a Cluster: to it they are one Redis.

`routed_client` cuts what comes in into requests, and sends each to the `lane` of the master that
owns its key's slot: a connection to that master, with a session over what is known there;
`connection_limit` says when it may connect, and `lane_calls` has the requests whose reply the proxy
itself awaits. With --share-upstream, lanes are on connections that clients share
(`proxy/sharing/`), as long as `sharing_policy` says so. Replies are counted, and `reply_order`
gives them back in the order of the requests. `redirects` sends again what a node has sent back;
`special_requests` and its neighbours do what concerns more than one node.
"""
