// Package dns installs the DNS of a cluster: CoreDNS, built from the folder coredns, as a Deployment on the real node.
package dns

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"text/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Image is the image of CoreDNS.
const Image = "millwright.dev/cluster/coredns:1"

// fieldManager is the field manager of the objects.
const fieldManager = "cluster"

// Settings is where CoreDNS runs and answers.
type Settings struct {
	Node      string // name of the node
	ServiceIP string // ClusterIP of its Service
}

//go:embed manifests
var manifests embed.FS

// objects are the manifests, in the order in which they are applied, with the paths of the objects in the API.
var objects = []struct{ file, path string }{
	{"service-account.yaml", "/api/v1/namespaces/kube-system/serviceaccounts/coredns"},
	{"cluster-role.yaml", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:coredns"},
	{"cluster-role-binding.yaml", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:coredns"},
	{"config-map.yaml", "/api/v1/namespaces/kube-system/configmaps/coredns"},
	{"service.yaml", "/api/v1/namespaces/kube-system/services/kube-dns"},
	{"deployment.yaml", "/apis/apps/v1/namespaces/kube-system/deployments/coredns"},
}

// Install makes the objects, or makes them what they should be.
func Install(ctx context.Context, client kubernetes.Interface, s Settings) error {
	for _, object := range objects {
		manifest, err := render(object.file, s)
		if err != nil {
			return err
		}
		err = client.CoreV1().RESTClient().Patch(types.ApplyPatchType).AbsPath(object.path).
			Param("fieldManager", fieldManager).Param("force", "true").Body(manifest).Do(ctx).Error()
		if err != nil {
			return fmt.Errorf("installing %s of CoreDNS: %w", object.path, err)
		}
	}
	return nil
}

// Ready returns an error until CoreDNS is ready, in a container that was started no earlier than since: the API may still show
// a container from before the cluster was stopped.
func Ready(ctx context.Context, client kubernetes.Interface, since time.Time) error {
	pods, err := client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "k8s-app=kube-dns"})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			if status.Ready && status.State.Running != nil && !status.State.Running.StartedAt.Time.Before(since) {
				return nil
			}
		}
	}
	return errors.New("CoreDNS is not ready")
}

func render(file string, s Settings) ([]byte, error) {
	t, err := template.New(file).Option("missingkey=error").ParseFS(manifests, "manifests/"+file)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", file, err)
	}
	var manifest bytes.Buffer
	if err := t.Execute(&manifest, map[string]string{"Image": Image, "Node": s.Node, "ServiceIP": s.ServiceIP}); err != nil {
		return nil, fmt.Errorf("filling in %s: %w", file, err)
	}
	return manifest.Bytes(), nil
}
