package main

import (
	"context"

	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"

	"millwright.dev/hack/cluster/node"
	"millwright.dev/hack/cluster/pki"
)

func controllerManagerFlags(certificates *pki.PKI, kubeconfig string, withNode bool) []string {
	flags := append(clientFlags(kubeconfig),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+certificates.ServiceAccountKey(),
		"--root-ca-file="+certificates.Certificate("ca"),
		"--cluster-signing-cert-file="+certificates.Certificate("ca"),
		"--cluster-signing-key-file="+certificates.Key("ca"),
		"--service-cluster-ip-range="+node.ServiceRange,
	)
	if withNode {
		// The loss of a node shows sooner than after the default of 50 s, but no busy machine keeps kubelet, which renews its lease every second,
		// from running as long as this.
		flags = append(flags, "--node-monitor-period=1s", "--node-monitor-grace-period=20s")
	}
	return flags
}

// clientFlags are what the controller manager and the scheduler have in common.
func clientFlags(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		// No serving port: their health is not checked, because they end with this process.
		"--secure-port=0",
		"--leader-elect=false",
		// The defaults of 20 and 50 requests per second are meant for production: they delay the first ServiceAccount by six
		// seconds and throttle every test of scale.
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
	}
}

// runControllerManager runs kube-controller-manager until the context ends. It cannot be its cobra command, which configures
// logging and handles signals: either may happen once per process.
func runControllerManager(ctx context.Context, flags []string) error {
	o, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	all, disabled, aliases := app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()
	if err := parseFlags("kube-controller-manager", o.Flags(all, disabled, aliases), flags); err != nil {
		return err
	}
	config, err := o.Config(ctx, all, disabled, aliases)
	if err != nil {
		return err
	}
	return app.Run(ctx, config.Complete())
}
