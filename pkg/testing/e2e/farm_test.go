// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/testing/patience"
	"millwright.dev/pkg/testing/testcluster"
)

const (
	farmNamespace = systemNamespace
	// tutorialNamespace is the namespace of the tutorial's Deployment.
	tutorialNamespace = "default"
	farmDeployment    = "deployment/farm-operator"
	farmAPIService    = "apiservice/v1alpha.farm.example.com"
	manifests         = "../../../manifests/"
)

// TestFarm tests the life of a cluster whose user has followed the tutorial and then installs Millwright.
func TestFarm(t *testing.T) {
	archives := os.Getenv(archivesVariable)
	if archives == "" {
		t.Skip("needs a real node and images: make e2e runs it")
	}
	s := newSuite(t, testcluster.Start(t, testcluster.WithNode()))
	for _, archive := range []string{"millwright-1.tar", "millwright-2.tar"} {
		s.LoadImages(t, filepath.Join(archives, archive))
	}
	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"tutorial", s.testTutorial},
		{"take over", s.testFarmTakesOver},
		{"move to the operator's namespace", s.testFarmMoves},
		{"update", s.testFarmUpdate},
		{"removal", s.testFarmRemoval},
	} {
		if !t.Run(part.name, part.run) {
			return // each part needs the state that the one before leaves
		}
	}
}

// testTutorial applies the tutorial's manifest: the server logs which rights it lacks, and works once they are bound.
func (s *suite) testTutorial(t *testing.T) {
	tutorial, err := os.ReadFile("testdata/farm-tutorial.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, string(tutorial), "IMAGE", millwright1)
	logs := ""
	eventually(t, "the server logs the rights that it lacks", patience.Limit, func() bool {
		logs = s.farmLogs(t)
		return strings.Contains(logs, "lacks rights")
	})
	contains(t, "the log of the server", logs, "extension-apiserver-authentication-reader", "system:auth-delegator", "llamarecords", "manifests/farm")

	s.InstallCRDs(t, "manifests/00-crds")
	s.Kubectl(t, "apply", "-f", manifests+"10-namespace.yaml", "-f", manifests+"farm/21-role.yaml", "-f", manifests+"farm-tutorial/21-bindings.yaml")
	// kubelet restarts the server, with a growing delay after each failure.
	s.AwaitAPIService(t, v1alpha.SchemeGroupVersion)
	s.Kubectl(t, "apply", "-f", manifests+"samples/llama/llama.yaml")
	s.expectDolly(t, "31.4")
	contains(t, "kubectl get farmpods", s.Kubectl(t, "get", "farmpods", "-n", tutorialNamespace), "farm-farm-operator-", "1/1", "Running")
}

// farmLogs returns the logs of the server's containers, and of those that ran before them.
func (s *suite) farmLogs(t *testing.T) (logs string) {
	t.Helper()
	pods, err := s.kube.CoreV1().Pods(tutorialNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=farm-operator"})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		for _, previous := range []bool{true, false} {
			// The container may not have started yet, or may have no predecessor.
			log, _ := s.kube.CoreV1().Pods(tutorialNamespace).GetLogs(pod.Name, &corev1.PodLogOptions{Previous: previous}).DoRaw(t.Context())
			logs += string(log)
		}
	}
	return logs
}

// expectDolly checks what kubectl prints of the Llama that has been there since the tutorial.
func (s *suite) expectDolly(t *testing.T, weight string) {
	t.Helper()
	got := strings.Fields(s.Kubectl(t, "get", "llama", "dolly", "-n", tutorialNamespace, "--no-headers"))
	if want := []string{"dolly", weight, "0.5"}; len(got) != 4 || !slices.Equal(got[:3], want) {
		t.Errorf("kubectl get llama dolly prints %q, want %q and the age", got, want)
	}
}

func (s *suite) testFarmTakesOver(t *testing.T) {
	refusal, err := s.tryToDeploy(t, "deploy", millwright1)
	if err == nil {
		t.Error("deploy did not fail next to the tutorial's server")
	}
	contains(t, "deploy", refusal, "Nothing was changed", "make deploy FARM=tutorial")
	output := s.deploy(t, "deploy", millwright1, "FARM=tutorial")
	contains(t, "deploy", output, "Taking over Deployment farm-operator", "Millwright is ready", farmAPIServiceMet)
	s.AwaitAPIService(t, v1alpha.SchemeGroupVersion)
	if spec := s.read(t, tutorialNamespace, farmAPIService, ".spec"); strings.Contains(spec, "insecure") || !strings.Contains(spec, "caBundle") {
		t.Errorf("got the APIService's spec %s, want one that verifies the server's certificate", spec)
	}
	if ready := s.read(t, tutorialNamespace, farmDeployment, ".status.readyReplicas"); ready != "2" {
		t.Errorf("got %q ready replicas, want 2", ready)
	}
	s.expectDolly(t, "31.4") // the Llama is unchanged
	s.Kubectl(t, "patch", "llama", "dolly", "-n", tutorialNamespace, "--type=merge", "-p", `{"spec":{"weight":35}}`)
	s.expectDolly(t, "35")
	contains(t, "kubectl get farmpods", s.Kubectl(t, "get", "farmpods", "--all-namespaces"), "farm-millwright-core-", "farm-farm-operator-")
	contains(t, "kubectl explain", s.Kubectl(t, "explain", "llama.spec"), "weight", "height")
	refusal = s.KubectlFails(t, "delete", "llamarecord", "dolly", "-n", tutorialNamespace)
	contains(t, "kubectl delete llamarecord", refusal, "written by the API server of farm.example.com alone")
}

// farmAPIServiceMet is what kubectl wait prints.
const farmAPIServiceMet = "apiservice.apiregistration.k8s.io/v1alpha.farm.example.com condition met"

// testFarmMoves moves the server to the operator's namespace: no request fails.
func (s *suite) testFarmMoves(t *testing.T) {
	load := s.startFarmLoad(t, s.Namespace(t))
	contains(t, "deploy", s.deploy(t, "deploy", millwright1), "Moving the API server of Llamas from namespace default to millwright-system")
	load.stop(t)
	s.expectLoad(t, load)
	if left := s.farmObjects(t, tutorialNamespace); left != "" {
		t.Errorf("got in namespace %s, want none:\n%s", tutorialNamespace, left)
	}
	s.expectDolly(t, "35")
}

// farmObjects returns the names of all objects of the server in a namespace.
func (s *suite) farmObjects(t *testing.T, namespace string) string {
	t.Helper()
	const kinds = "deployments,services,serviceaccounts,roles,rolebindings,poddisruptionbudgets,networkpolicies"
	return s.Kubectl(t, "get", kinds, "-n", namespace, "-l", "app=farm-operator", "-o", "name") +
		s.Kubectl(t, "get", "secrets", "-n", namespace, "-l", "app.kubernetes.io/managed-by=millwright", "-o", "name")
}

// testFarmUpdate deploys another version of the server: no request fails.
func (s *suite) testFarmUpdate(t *testing.T) {
	ns := s.Namespace(t)
	load := s.startFarmLoad(t, ns)
	s.deploy(t, "deploy", millwright2)
	s.Kubectl(t, "rollout", "restart", "-n", farmNamespace, farmDeployment)
	s.Kubectl(t, "rollout", "status", "-n", farmNamespace, farmDeployment, patience.Timeout)
	eventually(t, "the last old Pod has ended", patience.Limit, func() bool {
		pods := s.Kubectl(t, "get", "pods", "-n", farmNamespace, "-l", "app=farm-operator", "-o", "name")
		replicas := s.Kubectl(t, "get", "-n", farmNamespace, farmDeployment, "-o", "jsonpath={.spec.replicas}")
		return strconv.Itoa(len(strings.Fields(pods))) == replicas
	})
	load.stop(t)
	images := s.Kubectl(t, "get", "pods", "-n", farmNamespace, "-l", "app=farm-operator", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].spec.containers[0].image}")
	contains(t, "the Pods of the farm", images, millwright2)
	s.expectLoad(t, load)
}

// expectLoad checks that no request of the load has failed.
func (s *suite) expectLoad(t *testing.T, load *farmLoad) {
	t.Helper()
	t.Logf("requests by their kind: %v; the longest took %v; watches began %d times and saw %d Llamas", load.counts(), load.longest, load.watches, load.seen)
	for _, failure := range load.failures() {
		t.Error(failure)
	}
}

// testFarmRemoval is the last part: undeploy keeps Llamas, and leaves nothing that a deletion would wait for.
func (s *suite) testFarmRemoval(t *testing.T) {
	ns := s.Namespace(t)
	for _, name := range []string{"molly", "polly"} {
		llama := &v1alpha.Llama{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha.LlamaSpec{Weight: 30, Height: 0.6}}
		if name == "polly" {
			llama.Finalizers = []string{"example.com/never-comes"}
		}
		if _, err := s.client.FarmV1alpha().Llamas(ns).Create(t.Context(), llama, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	output := s.deploy(t, "undeploy", "")
	contains(t, "undeploy", output, `"v1alpha.farm.example.com" deleted`, `"farm-operator-serving" deleted`, `"farm-operator-ca" deleted`, "Llamas are kept")
	if strings.Index(output, `"v1alpha.farm.example.com" deleted`) > strings.Index(output, `"farm-operator" deleted`) {
		t.Errorf("the server was deleted before its APIService, want after:\n%s", output)
	}
	left := s.farmObjects(t, farmNamespace) + s.farmObjects(t, tutorialNamespace)
	left += s.Kubectl(t, "get", "apiservices,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,rolebindings", "-A", "-l", "app=farm-operator", "-o", "name")
	if left != "" {
		t.Errorf("got these objects after undeploy, want none:\n%s", left)
	}
	s.Kubectl(t, "delete", "namespace", ns, patience.Timeout)
	contains(t, "kubectl get llamarecords", s.Kubectl(t, "get", "llamarecords", "-A"), "dolly")

	s.deploy(t, "deploy", millwright2)
	s.expectDolly(t, "35")
}
