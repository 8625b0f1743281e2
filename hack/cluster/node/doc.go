// Package node runs a real node: containerd, kubelet and kube-proxy as processes of their own, in namespaces of their own.
//
// The first process of the node (Init) has a PID namespace: when it ends, however it ends, the kernel kills everything else in
// there, containers included. It has a mount namespace: what is mounted for Pods is never seen outside, and goes with the last
// process. It has the network namespace of the control plane, which leads nowhere outside (package netns). So nothing but
// cgroups can be left behind, and these are removed at the stop and before the next start.
//
// Init ends in an orderly way when its standard input ends, and so with the process at the other end, even if that is killed.
//
// Files of the node lie in one folder, which the processes see as Root: their configuration is the same for every cluster, and
// names of sockets are short wherever the cluster is.
package node
