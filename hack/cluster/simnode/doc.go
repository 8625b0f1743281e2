// Package simnode simulates nodes: they are Ready, and Pods bound to them run, become ready, end, and are removed, without any
// container. Everything else (scheduling, Deployments, Jobs, garbage collection) is done by the real control plane.
//
// It writes a Pod's status as a kubelet would, from three things only: the Pod, its script (annotations, see below) and
// the clock. decide is a pure function of them; the rest of the package gathers its input and applies its decision.
//
// kwok (sigs.k8s.io/kwok) does a similar job. It was not used because its stages are templates that patch a Pod and do not have
// its history: growing backoffs, restart policies and grace periods would have to be written in templates and jq expressions,
// on top of a library of five thousand lines that needs half a dozen clients and is configured by objects of its own.
//
// # Scripts
//
// Annotations of a Pod set what its containers do. They are read again whenever the Pod changes: adding
// ExitCodeAnnotation to a running Pod ends its containers.
//
// LogAnnotation and ExecAnnotation set what kubectl logs and kubectl exec show (kubelet.go serves both, to kube-apiserver only).
// They cost nothing until someone asks: no process, goroutine or file belongs to a Pod.
package simnode

const (
	// ExitCodeAnnotation makes all containers of the Pod exit with this code (0 to 255). As under a kubelet, the Pod's restart
	// policy decides what follows: the first restart comes immediately, the next ones after 10 s, 20 s, 40 s and so on up to
	// 5 minutes, during which the containers wait in CrashLoopBackOff.
	ExitCodeAnnotation = "simulated.millwright.dev/exit-code"

	// RunSecondsAnnotation is how long containers run before they exit with ExitCodeAnnotation, in seconds (fractions are
	// allowed). The default is 0.
	RunSecondsAnnotation = "simulated.millwright.dev/run-seconds"

	// NeverReadyAnnotation ("true" or "false"): the containers run but never become ready.
	NeverReadyAnnotation = "simulated.millwright.dev/never-ready"

	// TerminationSecondsAnnotation is how long the containers take to end when the Pod is deleted, in seconds (fractions are
	// allowed), but no longer than the grace period of the deletion. The default is 0.
	TerminationSecondsAnnotation = "simulated.millwright.dev/termination-seconds"

	// LogAnnotation is the text that each container of the Pod prints. All of it is printed when the container starts; with
	// RunSecondsAnnotation, its lines are spread evenly over that time.
	LogAnnotation = "simulated.millwright.dev/log"
	// ContainerLogPrefix and the name of a container make an annotation that is LogAnnotation for this container only.
	ContainerLogPrefix = "log.simulated.millwright.dev/"

	// ExecAnnotation is what commands do that are executed in a container of the Pod: a YAML list of answers, see answer.
	ExecAnnotation = "simulated.millwright.dev/exec"
	// ContainerExecPrefix and the name of a container make an annotation that is ExecAnnotation for this container only.
	ContainerExecPrefix = "exec.simulated.millwright.dev/"

	// NodeTypeLabel has the value NodeType on simulated nodes, so that workloads can be kept on or off them.
	NodeTypeLabel = "type"
	// NodeType is the value of NodeTypeLabel.
	NodeType = "simulated"
)
