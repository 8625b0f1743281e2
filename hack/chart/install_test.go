// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/strvals"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

func TestMain(m *testing.M) { testcluster.Main(m) }

// helm is a Helm that works on a cluster, with the release in one namespace.
type helm struct {
	t         *testing.T
	cluster   *testcluster.Cluster
	config    *action.Configuration
	chart     *chart.Chart
	namespace string
}

const releaseName = "millwright"

func newHelm(t *testing.T, releaseNamespace string) *helm {
	t.Helper()
	cluster := testcluster.Start(t)
	settings := cli.New()
	settings.KubeConfig = cluster.Kubeconfig()
	settings.KubeContext, settings.KubeAPIServer, settings.KubeToken, settings.KubeCaFile = "", "", "", ""
	settings.SetNamespace(releaseNamespace)
	config := action.NewConfiguration()
	config.SetLogger(slog.NewTextHandler(io.Discard, nil))
	if err := config.Init(settings.RESTClientGetter(), releaseNamespace, "secret"); err != nil {
		t.Fatal(err)
	}
	loaded, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return &helm{t, cluster, config, loaded, releaseNamespace}
}

func (h *helm) values(lines []string) map[string]any {
	h.t.Helper()
	parsed := map[string]any{}
	for _, line := range lines {
		if err := strvals.ParseInto(line, parsed); err != nil {
			h.t.Fatal(err)
		}
	}
	return parsed
}

// install as helm install does, with --create-namespace and, if it is set, with --take-ownership --force-conflicts.
func (h *helm) install(takeOwnership bool, values ...string) error {
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace = releaseName, h.namespace
	install.CreateNamespace, install.ServerSideApply = true, true
	install.TakeOwnership, install.ForceConflicts = takeOwnership, takeOwnership
	install.WaitStrategy = kube.HookOnlyStrategy
	_, err := install.Run(h.chart, h.values(values))
	return err
}

func (h *helm) mustUpgrade(values ...string) {
	h.t.Helper()
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace = h.namespace
	upgrade.ServerSideApply = "auto"
	upgrade.WaitStrategy = kube.HookOnlyStrategy
	if _, err := upgrade.Run(releaseName, h.chart, h.values(values)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *helm) mustUninstall() {
	h.t.Helper()
	uninstall := action.NewUninstall(h.config)
	uninstall.WaitStrategy, uninstall.Timeout = kube.StatusWatcherStrategy, time.Minute
	if _, err := uninstall.Run(releaseName); err != nil {
		h.t.Fatal(err)
	}
}

func (h *helm) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// uids returns a line with name and UID for each object of these resources.
func (h *helm) uids(resources string) string {
	h.t.Helper()
	return h.cluster.Kubectl(h.t, "get", resources, "--all-namespaces", "--output",
		`jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.uid}{"\n"}{end}`)
}

func (h *helm) field(path string, object ...string) string {
	h.t.Helper()
	return h.cluster.Kubectl(h.t, append([]string{"get", "--output", "jsonpath=" + path}, object...)...)
}

const usersObjects = "machines,helloapps,immortalcontainers,blueprints,llamarecords"

// users creates an object of each kind that users have. The ones of ActionSets are in the operator's own namespace.
func (h *helm) users(operatorNamespace string) {
	h.t.Helper()
	h.cluster.Kubectl(h.t, "create", "namespace", "shop")
	for _, sample := range []string{"machine/machine-switches.yaml", "helloapp/helloapp.yaml", "immortalcontainer/immortalcontainer.yaml"} {
		h.cluster.Kubectl(h.t, "apply", "--namespace", "shop", "--filename", manifests+"/samples/"+sample)
	}
	h.cluster.Kubectl(h.t, "apply", "--namespace", operatorNamespace, "--filename", manifests+"/samples/actionset/batch-blueprint.yaml")
	if lines := strings.Count(h.uids(usersObjects), "\n"); lines < 4 {
		h.t.Fatalf("there are only %d objects of users", lines)
	}
}

func TestInstallUpgradeUninstall(t *testing.T) {
	h := newHelm(t, "default")
	h.must(h.install(false))
	if got := h.field("{.spec.template.spec.containers[0].image}", "deployment", "-n", namespace, "millwright-core"); got != "millwright:latest" {
		t.Errorf("installed with the image %q", got)
	}
	h.cluster.Kubectl(t, "rollout", "status", "deployment", "--namespace", namespace, "--timeout=2m")
	var record struct{ Data map[string][]byte }
	h.must(json.Unmarshal([]byte(h.cluster.Kubectl(t, "get", "secret", "--namespace", "default", "sh.helm.release.v1.millwright.v1", "--output", "json")), &record))
	if size := len(record.Data["release"]); size > 700_000 {
		t.Errorf("the record of the release has %d bytes, and a Secret may have 1 MiB", size)
	} else {
		t.Logf("the record of the release has %d bytes", size)
	}
	h.users(namespace)
	definitions, objects := h.uids("crds,namespaces"), h.uids(usersObjects)

	// The CRDs of a later version come with its chart.
	const crd = "machines.useless.container.training"
	for _, file := range h.chart.Templates {
		if strings.HasSuffix(file.Name, "crds/"+crd+".yaml") {
			file.Data = []byte(strings.Replace(string(file.Data), "  annotations:\n", "  annotations:\n    later: \"yes\"\n", 1))
		}
	}
	h.mustUpgrade("image.tag=v2,core.replicas=1,engine.enabled=false,networkPolicy.enabled=false")
	if got := h.field("{.metadata.annotations.later}", "crd", crd); got != "yes" {
		t.Errorf("the upgrade has not changed the CRD: %q", got)
	}
	if got := h.field("{.spec.replicas} {.spec.template.spec.containers[0].image}", "deployment", "-n", namespace, "millwright-core"); got != "1 millwright:v2" {
		t.Errorf("upgraded to %q", got)
	}
	for _, gone := range []string{"deployment/millwright-engine", "serviceaccount/millwright-engine", "networkpolicy/millwright-core", "poddisruptionbudget/millwright-core"} {
		if output := h.cluster.KubectlFails(t, "get", gone, "--namespace", namespace); !strings.Contains(output, "NotFound") {
			t.Errorf("%s: %s", gone, output)
		}
	}

	h.mustUninstall()
	for _, kept := range []struct{ what, before, now string }{
		{"CRDs and namespaces", definitions, h.uids("crds,namespaces")}, {"objects of users", objects, h.uids(usersObjects)},
	} {
		if kept.before != kept.now {
			t.Errorf("%s: before uninstall\n%s\nand after it\n%s", kept.what, kept.before, kept.now)
		}
	}
	left := h.cluster.Kubectl(t, "get", "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,networkpolicies,"+
		"poddisruptionbudgets,validatingadmissionpolicies,validatingadmissionpolicybindings,apiservices", "--all-namespaces",
		"--selector", "app.kubernetes.io/managed-by=Helm", "--output", "name", "--ignore-not-found")
	if left != "" {
		t.Errorf("uninstall leaves\n%s", left)
	}

	// What stayed does not prevent the next installation.
	h.must(h.install(false))
	if got := h.uids(usersObjects); got != objects {
		t.Errorf("the second installation has changed objects of users:\n%s", got)
	}
}

func TestInstallInItsOwnNamespace(t *testing.T) {
	const own = "team-operators"
	h := newHelm(t, own)
	h.must(h.install(false, "farm.enabled=false"))
	h.cluster.Kubectl(t, "rollout", "status", "deployment", "--namespace", own, "--timeout=2m")
	if output := h.cluster.KubectlFails(t, "get", "namespace", namespace); !strings.Contains(output, "NotFound") {
		t.Errorf("got %s", output)
	}
	// The policy on what phases may do holds there, soon after it was installed.
	config := h.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:serviceaccount:%s:millwright-actions", own), Groups: []string{"system:masters"}}
	phases := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(own)
	if complaint := patience.Eventually(t.Context(), func() string {
		_, err := phases.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "phases of ActionSets do nothing in the namespace of the operator") {
			return fmt.Sprintf("a phase created a ConfigMap there, with the error %v", err)
		}
		return ""
	}); complaint != "" {
		t.Error(complaint)
	}
	h.users(own)
	objects := h.uids(usersObjects)
	h.mustUninstall()
	if got := h.uids(usersObjects); got != objects {
		t.Errorf("before uninstall\n%s\nand after it\n%s", objects, got)
	}
}

func TestHelmTakesOverAnInstallationByKubectl(t *testing.T) {
	h := newHelm(t, "default")
	h.cluster.Kubectl(t, "apply", "--server-side", "--kustomize", manifests)
	h.users(namespace)
	objects := h.uids(usersObjects + ",deployments")
	if err := h.install(false); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Fatalf("without --take-ownership: %v", err)
	}
	h.must(h.install(true))
	if got := h.uids(usersObjects + ",deployments"); got != objects {
		t.Errorf("before\n%s\nand after\n%s", objects, got)
	}
}
