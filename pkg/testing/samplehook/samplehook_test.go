// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package samplehook

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright.dev/pkg/hook"
)

// answered is a call, and the answer that is wanted, in YAML.
type answered struct {
	call
	want string
}

// sampleHooks are the hooks of the samples with calls in the order of the life of a parent or target.
var sampleHooks = map[string]struct {
	version hook.Version
	calls   map[string]answered
}{
	"compositecontroller/hello.yaml":                {hook.V1, helloCalls},
	"compositecontroller/rollingset.yaml":           {hook.V1, rollingSetCalls},
	"compositecontroller/bluegreen.yaml":            {hook.V1, blueGreenCalls},
	"compositecontroller/sharedconfig.yaml":         {hook.V1, sharedConfigCalls},
	"compositecontroller/configmappropagation.yaml": {hook.V2, propagationCalls},
	"decoratorcontroller/service-per-pod.yaml":      {hook.V1, servicePerPodCalls},
	"decoratorcontroller/secretmirror.yaml":         {hook.V2, secretMirrorCalls},
}

func TestHooksAnswer(t *testing.T) {
	for file, sample := range sampleHooks {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			address := Start(t, file)
			for name, test := range sample.calls {
				t.Run(name, func(t *testing.T) {
					request := test.request(t, sample.version)
					code, answer := send(t, address, test.path, request)
					if code != http.StatusOK {
						t.Fatalf("got %d: %s", code, answer)
					}
					if diff := cmp.Diff(asTree(t, toJSON(t, test.want)), asTree(t, answer)); diff != "" {
						t.Errorf("answer (-want +got):\n%s", diff)
					}
					test.accept(t, answer)
					// The engine detects by the bytes of an answer that nothing has changed.
					if _, again := send(t, address, test.path, request); !bytes.Equal(again, answer) {
						t.Errorf("the second answer differs:\n%s\n%s", answer, again)
					}
				})
			}
		})
	}
}

// asTree returns decoded JSON, in which the order of members does not matter.
func asTree(t testing.TB, body []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return value
}

// A hook refuses what it cannot understand with a text that names the field, because the engine shows the text to the user.
func TestHooksRefuse(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		call
		want string
	}{
		"ports without a target": {"decoratorcontroller/service-per-pod.yaml", statefulSet("/services", "'80'", "spec: {replicas: 1}"),
			"annotation service-per-pod.example.com/ports: '80' is not PORT:TARGETPORT, such as 80:8080"},
		"no ports": {"decoratorcontroller/service-per-pod.yaml", statefulSet("/services", "''", "spec: {replicas: 1}"),
			"annotation service-per-pod.example.com/ports: '' is not PORT:TARGETPORT, such as 80:8080"},
		"Secret without a namespace": {"decoratorcontroller/secretmirror.yaml", mirror("/customize", "wildcard"),
			"annotation secretmirror.example.com/from: 'wildcard' is not NAMESPACE/NAME"},
		"Secret without a name": {"decoratorcontroller/secretmirror.yaml", mirror("/customize", "certificates/"),
			"annotation secretmirror.example.com/from: 'certificates/' is not NAMESPACE/NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, answer := send(t, Start(t, test.file), test.path, test.request(t, sampleHooks[test.file].version))
			if code != http.StatusBadRequest || string(answer) != test.want {
				t.Errorf("got %d: %s\nwant 400: %s", code, answer, test.want)
			}
		})
	}
}

// The manifest of each sample has all that its hook needs: the ConfigMap is mounted where the command reads it, and the Service has the name and
// the namespace that the controllers call.
func TestManifestsAreConsistent(t *testing.T) {
	for file := range sampleHooks {
		t.Run(file, func(t *testing.T) {
			services, files := map[string]bool{}, map[string]bool{}
			for _, o := range Objects(t, file) {
				switch o.GetKind() {
				case "Service":
					services[o.GetName()+"."+o.GetNamespace()] = true
				case "ConfigMap":
					for name := range o.Object["data"].(map[string]any) {
						files["/hooks/"+name] = true
					}
				}
			}
			for _, o := range Objects(t, file) {
				body, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case strings.HasSuffix(o.GetKind(), "Controller"):
					checkCalls(t, o.Object["spec"].(map[string]any)["hooks"].(map[string]any), services)
				case o.GetKind() == "Deployment":
					found := false
					for name := range files {
						found = found || bytes.Contains(body, []byte(`"`+name+`"`))
					}
					if !found {
						t.Errorf("the Deployment runs none of the files of the ConfigMap, %v", files)
					}
				}
			}
		})
	}
}

// checkCalls checks that all hooks of a controller are served by one of the Services.
func checkCalls(t *testing.T, hooks map[string]any, services map[string]bool) {
	t.Helper()
	for phase, of := range hooks {
		webhook := of.(map[string]any)["webhook"].(map[string]any)
		host := ""
		if url, ok := webhook["url"].(string); ok {
			host, _, _ = strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		} else {
			service := webhook["service"].(map[string]any)
			host = service["name"].(string) + "." + service["namespace"].(string)
		}
		if !services[host] {
			t.Errorf("hook %s is called at %s, want one of the Services %v", phase, host, services)
		}
	}
}
