// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/farm/v1alpha"
	"millwright.dev/pkg/testing/testcluster"
)

const (
	farmNamespace = systemNamespace
	// tutorialNamespace is where the tutorial has it.
	tutorialNamespace = "default"
	farmDeployment    = "deployment/farm-operator"
	farmAPIService    = "apiservice/v1alpha.farm.example.com"
	manifests         = "../../../manifests/"
)

// TestFarm is the life of a cluster in which somebody has followed the tutorial, and then goes on with us.
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
		{"the tutorial's manifest says which rights it lacks and works with them", s.testTutorial},
		{"one command takes its place", s.testFarmTakesOver},
		{"no request fails while it moves to the namespace of the operator", s.testFarmMoves},
		{"no request fails while it is updated", s.testFarmUpdate},
		{"undeploy leaves Llamas and nothing that anything waits for", s.testFarmRemoval},
	} {
		if !t.Run(part.name, part.run) {
			return // each goes on where the one before has ended
		}
	}
}

func (s *suite) testTutorial(t *testing.T) {
	tutorial, err := os.ReadFile("testdata/farm-tutorial.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.apply(t, string(tutorial), "IMAGE", millwright1)
	logs := ""
	eventually(t, "its server says what it lacks", patience, func() bool {
		logs = s.farmLogs(t)
		return strings.Contains(logs, "lacks rights")
	})
	contains(t, "the log of the server", logs, "extension-apiserver-authentication-reader", "system:auth-delegator", "llamarecords", "manifests/farm")

	s.InstallCRDs(t, "manifests/00-crds")
	s.Kubectl(t, "apply", "-f", manifests+"10-namespace.yaml", "-f", manifests+"farm/21-role.yaml", "-f", manifests+"farm-tutorial/21-bindings.yaml")
	// It is started again by itself, the later the oftener it has failed.
	s.become(t, tutorialNamespace, farmAPIService, "Available")
	s.Kubectl(t, "apply", "-f", manifests+"samples/llama/llama.yaml")
	s.expectDolly(t, "31.4")
	contains(t, "kubectl get farmpods", s.Kubectl(t, "get", "farmpods", "-n", tutorialNamespace), "farm-farm-operator-", "1/1", "Running")
}

// farmLogs are what the containers of the farm have said that run, and those that ran before them.
func (s *suite) farmLogs(t *testing.T) (logs string) {
	t.Helper()
	pods, err := s.kube.CoreV1().Pods(tutorialNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=farm-operator"})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		for _, previous := range []bool{true, false} {
			// There may be none, or none yet.
			said, _ := s.kube.CoreV1().Pods(tutorialNamespace).GetLogs(pod.Name, &corev1.PodLogOptions{Previous: previous}).DoRaw(t.Context())
			logs += string(said)
		}
	}
	return logs
}

// expectDolly as kubectl shows it to a user.
func (s *suite) expectDolly(t *testing.T, weight string) {
	t.Helper()
	if fields := strings.Fields(s.Kubectl(t, "get", "llama", "dolly", "-n", tutorialNamespace, "--no-headers")); len(fields) != 4 || fields[0] != "dolly" || fields[1] != weight || fields[2] != "0.5" {
		t.Errorf("kubectl get llama dolly shows %q", fields)
	}
}

func (s *suite) testFarmTakesOver(t *testing.T) {
	refusal, err := s.tryToDeploy(t, "deploy", millwright1)
	if err == nil {
		t.Error("it is deployed next to the tutorial's")
	}
	contains(t, "deploy", refusal, "Nothing was changed", "make deploy FARM=tutorial")
	output := s.deploy(t, "deploy", millwright1, "FARM=tutorial")
	contains(t, "deploy", output, "Taking over Deployment farm-operator", "Millwright is at work", farmAPIServiceMet)
	s.become(t, tutorialNamespace, farmAPIService, "Available")
	if spec := s.read(t, tutorialNamespace, farmAPIService, ".spec"); strings.Contains(spec, "insecure") || !strings.Contains(spec, "caBundle") {
		t.Errorf("the APIService verifies nothing, or cannot: %s", spec)
	}
	if ready := s.read(t, tutorialNamespace, farmDeployment, ".status.readyReplicas"); ready != "2" {
		t.Errorf("%q replicas are ready", ready)
	}
	s.expectDolly(t, "31.4") // it is where it was
	s.Kubectl(t, "patch", "llama", "dolly", "-n", tutorialNamespace, "--type=merge", "-p", `{"spec":{"weight":35}}`)
	s.expectDolly(t, "35")
	contains(t, "kubectl get farmpods", s.Kubectl(t, "get", "farmpods", "--all-namespaces"), "farm-millwright-core-", "farm-farm-operator-")
	contains(t, "kubectl explain", s.Kubectl(t, "explain", "llama.spec"), "weight", "height")
	refusal = s.KubectlFails(t, "delete", "llamarecord", "dolly", "-n", tutorialNamespace)
	contains(t, "kubectl delete llamarecord", refusal, "written by the API server of farm.example.com alone")
}

// farmAPIServiceMet is what kubectl wait says.
const farmAPIServiceMet = "apiservice.apiregistration.k8s.io/v1alpha.farm.example.com condition met"

func (s *suite) testFarmMoves(t *testing.T) {
	load := s.startFarmLoad(t, s.Namespace(t))
	contains(t, "deploy", s.deploy(t, "deploy", millwright1), "Moving the API server of Llamas from namespace default to millwright-system")
	load.stop()
	s.expectLoad(t, load)
	if left := s.farmObjects(t, tutorialNamespace); left != "" {
		t.Errorf("in namespace %s there are still\n%s", tutorialNamespace, left)
	}
	s.expectDolly(t, "35")
}

// farmObjects that are ours in a namespace.
func (s *suite) farmObjects(t *testing.T, namespace string) string {
	t.Helper()
	const kinds = "deployments,services,serviceaccounts,roles,rolebindings,poddisruptionbudgets,networkpolicies"
	return s.Kubectl(t, "get", kinds, "-n", namespace, "-l", "app=farm-operator", "-o", "name") +
		s.Kubectl(t, "get", "secrets", "-n", namespace, "-l", "app.kubernetes.io/managed-by=millwright", "-o", "name")
}

func (s *suite) testFarmUpdate(t *testing.T) {
	ns := s.Namespace(t)
	load := s.startFarmLoad(t, ns)
	s.deploy(t, "deploy", millwright2)
	s.Kubectl(t, "rollout", "restart", "-n", farmNamespace, farmDeployment)
	s.Kubectl(t, "rollout", "status", "-n", farmNamespace, farmDeployment, "--timeout="+patience.String())
	time.Sleep(5 * time.Second) // until the last of the old ones has ended
	load.stop()
	images := s.Kubectl(t, "get", "pods", "-n", farmNamespace, "-l", "app=farm-operator", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].spec.containers[0].image}")
	contains(t, "the Pods of the farm", images, millwright2)
	s.expectLoad(t, load)
}

// expectLoad complains of what was refused to it, or where it was none.
func (s *suite) expectLoad(t *testing.T, load *farmLoad) {
	t.Helper()
	t.Logf("requests by their kind: %v; the longest took %v; watches began %d times and saw %d Llamas", load.counts(), load.longest, load.watches, load.seen)
	if load.longest > 10*time.Second {
		t.Errorf("a request took %v", load.longest)
	}
	for kind, n := range load.counts() {
		if n < 50 {
			t.Errorf("only %d times was there a %s: that was no load", n, kind)
		}
	}
	for _, failure := range load.failures() {
		t.Error(failure)
	}
}

// testFarmRemoval is the last part.
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
		t.Errorf("the server was deleted before its APIService:\n%s", output)
	}
	left := s.farmObjects(t, farmNamespace) + s.farmObjects(t, tutorialNamespace)
	left += s.Kubectl(t, "get", "apiservices,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,rolebindings", "-A", "-l", "app=farm-operator", "-o", "name")
	if left != "" {
		t.Errorf("there are still\n%s", left)
	}
	s.Kubectl(t, "delete", "namespace", ns, "--timeout="+patience.String())
	contains(t, "kubectl get llamarecords", s.Kubectl(t, "get", "llamarecords", "-A"), "dolly")

	s.deploy(t, "deploy", millwright2)
	s.expectDolly(t, "35")
}
