package main

import (
	"context"

	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// runScheduler runs kube-scheduler until the context ends; as to its cobra command see runControllerManager.
func runScheduler(ctx context.Context, flags []string) error {
	o := options.NewOptions()
	if err := parseFlags("kube-scheduler", *o.Flags, flags); err != nil {
		return err
	}
	config, scheduler, err := app.Setup(ctx, o)
	if err != nil {
		return err
	}
	return app.Run(ctx, config, scheduler)
}
