package main

import (
	"context"
	"errors"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcdQuota is the size in bytes at which etcd refuses writes. Its default of 2 GiB is within reach of a test that writes for
// minutes, for the API server compacts only every five.
const etcdQuota = 8 << 30

// startEtcd starts etcd as a cluster of one and returns when it serves. It listens on a socket inside the state directory and
// nowhere else: it needs no free port, and the directory's permissions are all the access control it needs.
func (c *controlPlane) startEtcd(ctx context.Context) error {
	client := url.URL{Scheme: "unix", Path: c.dir.EtcdSocket()}
	// No process listens there: a cluster of one has no peers, but its member must have an address.
	peer := url.URL{Scheme: "http", Host: "localhost:0"}

	config := embed.NewConfig()
	config.Name = "millwright"
	config.Dir = c.dir.EtcdData()
	config.ListenClientUrls = []url.URL{client}
	config.AdvertiseClientUrls = []url.URL{client}
	config.ListenPeerUrls = nil
	config.AdvertisePeerUrls = []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.QuotaBackendBytes = etcdQuota
	config.UnsafeNoFsync = c.unsafeNoFsync
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(c.etcdLogger)

	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	c.parts.Go(ctx, "etcd", func(ctx context.Context) error {
		defer etcd.Close()
		select {
		case <-ctx.Done():
			return nil
		case err := <-etcd.Err():
			return err
		case <-etcd.Server.StopNotify():
			return errors.New("the server stopped")
		}
	})
	select {
	case <-etcd.Server.ReadyNotify():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
