// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/generated/clientset/versioned"
	"millwright.dev/pkg/manager"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

const (
	// farmNamespace is the namespace of the farm.
	farmNamespace = accountNamespace
	// servingSecret is the Secret with its certificate.
	servingSecret = "farm-operator-serving"
	// authoritySecret is the Secret with the authority that signs the certificate.
	authoritySecret = "farm-operator-ca"
	// servedAs is the host name that the aggregation layer checks in the certificate.
	servedAs = "farm-operator.millwright-system.svc"
)

// farm is a control plane with the API server of the farm, which runs outside the cluster in two processes with the rights of its
// ServiceAccount only. The Service is of type ExternalName and leads to the front, which forwards to the processes.
type farm struct {
	cluster    *testcluster.Cluster
	account    *testcluster.Account
	kubeconfig string
	front      *front
	replicas   []*farmServer
}

// installFarm installs the manifests. No server runs yet.
func installFarm(t *testing.T, cluster *testcluster.Cluster) *farm {
	t.Helper()
	f := &farm{cluster: cluster, kubeconfig: filepath.Join(filepath.Dir(cluster.Kubeconfig()), "farm.kubeconfig")}
	var err error
	if f.front, err = openFront(); err != nil {
		t.Fatal(err)
	}
	installFarmManifests(t, cluster, f.front.port())
	f.account = farmOperator.account(t, cluster)
	if err := f.account.WriteKubeconfigTo(f.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return f
}

// start starts two servers with the certificate that the controller issues, and waits until the APIService is available.
func (f *farm) start(t *testing.T) {
	t.Helper()
	f.startWith(t, func() {
		for range 2 {
			f.add(t)
		}
	})
}

// startWith issues the certificate, and waits until the APIService is available by what launch starts.
func (f *farm) startWith(t *testing.T, launch func()) {
	t.Helper()
	kubeconfig := operatorAccount(t, f.cluster).WriteKubeconfig(t)
	stop := runManagerWith(t, func(options *manager.Options) {
		options.Kubeconfig, options.Controllers = kubeconfig, []string{"servingcert"}
	})
	launch()
	f.awaitAvailable(t)
	stop()
}

// add starts one more server behind the front.
func (f *farm) add(t *testing.T, args ...string) *farmServer {
	t.Helper()
	server, err := launchFarmServer(buildBinary(t), f.kubeconfig, append([]string{"--serving-secret=" + farmNamespace + "/" + servingSecret}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	f.replicas = append(f.replicas, server)
	f.front.add(server.address)
	return server
}

// remove removes a server that is about to end or has ended.
func (f *farm) remove(server *farmServer) {
	f.replicas = slices.DeleteFunc(f.replicas, func(other *farmServer) bool { return other == server })
	f.front.remove(server.address)
}

// awaitAvailable waits until kube-apiserver serves the API of the farm.
func (f *farm) awaitAvailable(t testing.TB) {
	t.Helper()
	f.cluster.AwaitAPIService(t, farmv1alpha.SchemeGroupVersion)
}

// stop stops the servers, and returns their errors.
func (f *farm) stop() (err error) {
	for _, server := range f.replicas {
		err = errors.Join(err, server.terminate())
	}
	f.front.close()
	return err
}

// farmServer is a process "millwright apiserver".
type farmServer struct {
	*process
	address string
}

func launchFarmServer(binary, kubeconfig string, args ...string) (*farmServer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p, err := launch(binary, append(serverArgs(kubeconfig, port), args...)...)
	return &farmServer{process: p, address: net.JoinHostPort("127.0.0.1", port)}, err
}

// serverArgs returns the subcommand and the flags that all servers have.
func serverArgs(kubeconfig, port string) []string {
	return []string{"apiserver", "--kubeconfig", kubeconfig, "--bind-address", "127.0.0.1", "--secure-port", port, "--shutdown-delay-duration", "0s"}
}

// startFarmServer starts a server for this test alone, to which no Service leads.
func startFarmServer(t *testing.T, kubeconfig string, args ...string) *farmServer {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	p := startSubcommand(t, append(serverArgs(kubeconfig, port), args...)...)
	return &farmServer{process: p, address: net.JoinHostPort("127.0.0.1", port)}
}

// freePort returns a free port below the ephemeral ports of the system, so that it stays free until the server listens.
func freePort() (string, error) {
	const lowest, count = 20000, 10000
	var err error
	for range 100 {
		port := strconv.Itoa(lowest + rand.IntN(count))
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return port, listener.Close()
		}
	}
	return "", fmt.Errorf("looking for a free port: %w", err)
}

// terminate stops the process, waits until it has ended, and returns an error if it did not end well. A data race shows in its exit code.
func (s *farmServer) terminate() error {
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("an API server of the farm has ended by itself: %v; its log:\n%s", s.ProcessState, s.log)
	}
	select {
	case <-s.ended:
	case <-time.After(patience.Limit):
		_ = s.Process.Kill()
		<-s.ended
		return fmt.Errorf("an API server of the farm did not end within %s of SIGTERM; its log:\n%s", patience.Limit, s.log)
	}
	if code := s.ProcessState.ExitCode(); code != 0 || strings.Contains(s.log.String(), "panic: ") {
		return fmt.Errorf("an API server of the farm ended with exit code %d; its log:\n%s", code, s.log)
	}
	return nil
}

// as returns a configuration for direct requests to the server, by the user of the other configuration. It does not verify the certificate.
func (s *farmServer) as(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Host = "https://" + s.address
	config.Insecure, config.CAData, config.CAFile = true, nil, ""
	config.QPS = -1
	return config
}

// client returns a client of an administrator that sends direct requests to the server.
func (s *farmServer) client(t testing.TB, cluster *testcluster.Cluster) versioned.Interface {
	t.Helper()
	client, err := versioned.NewForConfig(s.as(cluster.Config()))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// get sends a GET to the server as the user of the configuration, and returns the body.
func (s *farmServer) get(ctx context.Context, config *rest.Config, path string) ([]byte, error) {
	client, err := kubernetes.NewForConfig(s.as(config))
	if err != nil {
		return nil, err
	}
	return client.RESTClient().Get().AbsPath(path).DoRaw(ctx)
}

// awaitReady waits until the server is ready, or fails when it has ended.
func (s *farmServer) awaitReady(t *testing.T, cluster *testcluster.Cluster) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience.Limit, true, func(ctx context.Context) (bool, error) {
		select {
		case <-s.ended:
			return false, fmt.Errorf("the process has ended: %v", s.ProcessState)
		default:
		}
		_, last = s.get(ctx, cluster.Config(), "/readyz")
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until the API server of the farm is ready: %v: %v", err, last)
	}
}

// poke annotates the APIService. The cluster then checks its availability immediately, not only every 30 seconds.
func (f *farm) poke(t testing.TB) {
	t.Helper()
	f.cluster.Kubectl(t, "annotate", "--overwrite", "apiservice", "v1alpha.farm.example.com", "poked="+metav1.Now().Format(time.RFC3339Nano))
}
