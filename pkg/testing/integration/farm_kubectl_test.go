// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

// age matches what kubectl prints as the age of an object.
var age = regexp.MustCompile(`^(\d+(ms|[smhd]))+$`)

// prints checks that kubectl prints these rows of columns, in which AGE stands for any age.
func (e *farmEnv) prints(wanted string, args ...string) {
	e.Helper()
	got := table(e.kubectl(args...))
	want := table(strings.TrimSpace(wanted) + "\n")
	for i := range got {
		for j := range got[i] {
			if i < len(want) && j < len(want[i]) && want[i][j] == "AGE" && age.MatchString(got[i][j]) {
				got[i][j] = "AGE"
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		e.Errorf("kubectl %s (-want +got):\n%s", strings.Join(args, " "), diff)
	}
}

// says checks that kubectl prints all of these texts.
func (e *farmEnv) says(args []string, wanted ...string) {
	e.Helper()
	output := e.kubectl(args...)
	plain := strings.Join(strings.Fields(output), " ")
	for _, want := range wanted {
		if !strings.Contains(plain, want) {
			e.Errorf("kubectl %s: want %q, got:\n%s", strings.Join(args, " "), want, output)
		}
	}
}

func TestFarmKubectlGet(t *testing.T) {
	e := inSharedFarm(t)
	if output := e.kubectl("apply", "-f", "../../../manifests/samples/llama/llama.yaml"); output != "llama.farm.example.com/dolly created\n" {
		t.Errorf("kubectl apply: got %s", output)
	}
	e.kubectl("label", "llama", "dolly", "herd=north")
	const rows = "NAME WEIGHT HEIGHT AGE\ndolly 31.4 0.5 AGE"
	for _, named := range []string{"llamas", "llama", "ll", "llamas.farm.example.com", "llamas.v1alpha.farm.example.com"} {
		e.prints(rows, "get", named)
	}
	e.prints(rows, "get", "llama", "dolly")
	e.prints(rows, "get", "llamas", "-o", "wide")
	e.prints("NAME WEIGHT HEIGHT AGE\nllama.farm.example.com/dolly 31.4 0.5 AGE", "get", "farm")
	e.prints("NAME WEIGHT HEIGHT AGE LABELS\ndolly 31.4 0.5 AGE herd=north", "get", "llamas", "--show-labels")
	e.prints("NAME WEIGHT HEIGHT AGE HERD\ndolly 31.4 0.5 AGE north", "get", "llamas", "-L", "herd")
	e.prints("NAMESPACE NAME WEIGHT HEIGHT AGE\n"+e.namespace+" dolly 31.4 0.5 AGE",
		"get", "llamas", "--field-selector", "metadata.namespace="+e.namespace, "--all-namespaces")
	e.prints("llama.farm.example.com/dolly", "get", "llamas", "-o", "name")
	e.prints("31.4 0.5", "get", "llama", "dolly", "-o", "jsonpath={.spec.weight} {.spec.height}")
	e.says([]string{"get", "llama", "dolly", "-o", "yaml"}, "apiVersion: farm.example.com/v1alpha", "kind: Llama", "generation: 1", "weight: 31.4")
	e.says([]string{"describe", "llama", "dolly"}, "Name: dolly", "Namespace: "+e.namespace, "Labels: herd=north",
		"API Version: farm.example.com/v1alpha", "Kind: Llama", "Spec: Height: 0.5 Weight: 31.4", "Events: <none>")
	path := "/apis/farm.example.com/v1alpha/namespaces/" + e.namespace + "/llamas/dolly"
	e.says([]string{"get", "--raw", path}, `"kind":"Llama"`, `"spec":{"weight":31.4,"height":0.5}`)
	e.prints("yes", "auth", "can-i", "create", "llamas")
}

func TestFarmKubectlExplain(t *testing.T) {
	e := inSharedFarm(t)
	// The API server reads the OpenAPI document of a new APIService again after a minute if the server was not available at first.
	e.eventually(func() string {
		paths, err := e.kube.Discovery().OpenAPIV3().Paths()
		if _, ok := paths["apis/farm.example.com/v1alpha"]; !ok {
			return fmt.Sprintf("OpenAPI document of the farm: not found: %v", err)
		}
		return ""
	})
	e.says([]string{"explain", "llama"}, "GROUP: farm.example.com", "KIND: Llama", "VERSION: v1alpha",
		"Llama is an animal of the farm.", "spec <LlamaSpec> -required-", "spec describes the llama.")
	e.says([]string{"explain", "llamas.spec.weight"}, "FIELD: weight <number>", "weight in kilograms; more than 0, and at most 1000.")
	e.says([]string{"explain", "farmpod.status.reason"}, "KIND: FarmPod", "CrashLoopBackOff")
	e.says([]string{"explain", "fp", "--recursive"}, "readyContainers <integer>", "images <[]string>")
	resources := table(e.kubectl("api-resources", "--categories=farm", "--sort-by=name", "-o", "wide"))
	var named [][]string
	for _, row := range resources[1:] {
		named = append(named, row[:5])
	}
	want := [][]string{{"farmpods", "fp", "farm.example.com/v1alpha", "true", "FarmPod"}, {"llamas", "ll", "farm.example.com/v1alpha", "true", "Llama"}}
	if diff := cmp.Diff(want, named); diff != "" {
		t.Errorf("kubectl api-resources (-want +got):\n%s", diff)
	}
}

func TestKubectlGetMillwright(t *testing.T) {
	e := inSharedFarm(t)
	kinds := strings.Fields(e.kubectl("api-resources", "--categories=millwright", "--sort-by=name", "-o", "name"))
	want := []string{
		"actionsets.cr.kanister.io", "blueprints.cr.kanister.io", "compositecontrollers.metacontroller.k8s.io", "decoratorcontrollers.metacontroller.k8s.io",
		"farmpods.farm.example.com", "helloapps.apps.anupam.com", "immortalcontainers.immortalcontainers.flugel.it", "llamas.farm.example.com",
		"machines.useless.container.training", "profiles.cr.kanister.io", "switches.useless.container.training",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("the kinds of the category (-want +got):\n%s", diff)
	}
	profile := e.file("apiVersion: cr.kanister.io/v1alpha1\nkind: Profile\nmetadata: {name: store}\n")
	llama := e.file("apiVersion: farm.example.com/v1alpha\nkind: Llama\nmetadata: {name: dolly}\nspec: {weight: 31.4, height: 0.5}\n")
	e.kubectl("create", "-f", profile, "-f", llama)
	if got := strings.Fields(e.kubectl("get", "millwright", "-o", "name")); !slices.Contains(got, "profile.cr.kanister.io/store") || !slices.Contains(got, "llama.farm.example.com/dolly") {
		t.Errorf("kubectl get millwright: got %q", got)
	}
}

func TestFarmKubectlWatch(t *testing.T) {
	e := inSharedFarm(t)
	watched := e.cluster.StartKubectl(t, "--namespace", e.namespace, "get", "llamas", "--watch", "--output-watch-events")
	sees := func(wanted ...string) {
		t.Helper()
		e.eventually(func() string {
			rows := table(watched())
			if i := slices.IndexFunc(rows, func(row []string) bool { return len(row) == 5 && slices.Equal(row[:4], wanted) }); i < 0 {
				return watched()
			}
			return ""
		})
	}
	e.kubectl("apply", "-f", e.file(dolly))
	sees("ADDED", "dolly", "31.4", "0.5")
	e.kubectl("patch", "llama", "dolly", "--type=merge", "-p", `{"spec":{"weight":40}}`)
	sees("MODIFIED", "dolly", "40", "0.5")
	e.kubectl("delete", "llama", "dolly")
	sees("DELETED", "dolly", "40", "0.5")
	if header := table(watched())[0]; !slices.Equal(header, []string{"EVENT", "NAME", "WEIGHT", "HEIGHT", "AGE"}) {
		t.Errorf("got columns %s", header)
	}
}

func TestFarmKubectlSelectors(t *testing.T) {
	e := inSharedFarm(t)
	for name, herd := range map[string]string{"amy": "north", "bea": "north", "cora": "south", "dolly": ""} {
		if herd == "" {
			e.createLlama(newLlama(name))
		} else {
			e.createLlama(newLlama(name, labelled("herd", herd)))
		}
	}
	names := func(args ...string) string {
		t.Helper()
		output := e.kubectl(append([]string{"get", "llamas", "-o", "name"}, args...)...)
		return strings.Join(strings.Fields(strings.ReplaceAll(output, "llama.farm.example.com/", "")), " ")
	}
	for _, test := range []struct{ flag, selector, want string }{
		{"-l", "herd=north", "amy bea"},
		{"-l", "herd!=north", "cora dolly"},
		{"-l", "herd", "amy bea cora"},
		{"-l", "!herd", "dolly"},
		{"-l", "herd in (south, east)", "cora"},
		{"--field-selector", "metadata.name=cora", "cora"},
		{"--field-selector", "metadata.name!=cora", "amy bea dolly"},
		{"--field-selector", "metadata.namespace=" + e.namespace, "amy bea cora dolly"},
		{"--field-selector", "metadata.namespace=elsewhere", ""},
	} {
		if got := names(test.flag, test.selector); got != test.want {
			t.Errorf("%s %s: got %s, want %s", test.flag, test.selector, got, test.want)
		}
	}
	if got := names("-l", "herd=north", "--field-selector", "metadata.name=bea"); got != "bea" {
		t.Errorf("both selectors: got %s, want bea", got)
	}
	unknown := e.kubectlFails("get", "llamas", "--field-selector", "spec.weight=31.4")
	if !strings.Contains(unknown, "(BadRequest)") || !strings.Contains(unknown, "\"spec.weight\" is not a known field selector") {
		t.Errorf("unknown field selector: got %s, want a bad request", unknown)
	}
	e.kubectl("delete", "llamas", "-l", "herd=north")
	if got := names(); got != "cora dolly" {
		t.Errorf("after kubectl delete -l: got %s, want cora dolly", got)
	}
	e.kubectl("delete", "llamas", "--all")
	if got := names(); got != "" {
		t.Errorf("after kubectl delete --all: got %s, want none", got)
	}
	if output := e.kubectl("get", "llamas"); output != "" { // kubectl prints on standard error that there are none
		t.Errorf("kubectl get without Llamas: got %s, want nothing", output)
	}
}

func TestFarmDeleteCollection(t *testing.T) {
	e := inSharedFarm(t)
	for _, name := range []string{"amy", "bea", "cora"} {
		e.createLlama(newLlama(name, labelled("herd", "north")))
	}
	e.createLlama(newLlama("dolly"))
	if err := e.llamas.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "herd=north"}); err != nil {
		t.Fatal(err)
	}
	list, err := e.llamas.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Name != "dolly" {
		t.Errorf("got %v, want dolly", llamaNames(list))
	}
}

func llamaNames(list *farmv1alpha.LlamaList) (names []string) {
	for _, llama := range list.Items {
		names = append(names, llama.Name)
	}
	return names
}
