// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"millwright.dev/pkg/phase"
)

// wantWait checks that an error waits for the API groups.
func wantWait(t *testing.T, what string, err error, groups string) {
	t.Helper()
	var waits *phase.WaitError
	if !errors.As(err, &waits) || waits.Waiting.For != groups+" to be available" {
		t.Errorf("%s: %v, want it to wait for %s", what, err, groups)
	}
	if message, failed := phase.FailureOf(phase.Definitive(err)); failed {
		t.Errorf("%s: the phase fails: %s", what, message)
	}
}

func gadgets(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "g.example.com", Version: version, Resource: "gadgets"}
}

func TestKindOfUnavailableGroup(t *testing.T) {
	for name, down := range map[string]error{
		"no endpoints":         apierrors.NewServiceUnavailable("no endpoints"),
		"no right at its own":  apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("not authorized")),
		"an error of a server": apierrors.NewInternalError(errors.New("it has crashed")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := serverWith(served("v1", "ConfigMap"))
				server.down["g.example.com/v1"] = down
				m := NewMapper(server)
				kind := gadgets("v1").GroupVersion().WithKind("Gadget")
				_, err := m.ofKind(t.Context(), kind, isFound)
				wantWait(t, "the kind", err, "the API group g.example.com")
				wantText(t, "the kind", err.Error(), down.Error())
				_, err = m.ofResource(t.Context(), gadgets("v1"))
				wantWait(t, "the resource", err, "the API group g.example.com")
				if _, err := m.ofKind(t.Context(), schema.FromAPIVersionAndKind("v1", "Nothing"), isFound); !meta.IsNoMatchError(err) {
					t.Errorf("a kind that an available group does not serve: %v", err)
				}
				if _, err := m.ofKind(t.Context(), schema.FromAPIVersionAndKind("absent.example.com/v1", "Nothing"), isFound); !meta.IsNoMatchError(err) {
					t.Errorf("a group that is not served: %v", err)
				}
				delete(server.down, "g.example.com/v1")
				server.Resources = append(server.Resources, served("g.example.com/v1", "Gadget"))
				if found, err := m.ofKind(t.Context(), kind, isFound); err != nil || found.GroupVersionResource != gadgets("v1") || !found.namespaced {
					t.Errorf("it is available again: %+v, %v", found, err)
				}
			})
		})
	}
}

func TestNoConnectionIsNoGroupsOutage(t *testing.T) {
	server := serverWith()
	for _, refused := range []error{errors.New("connection refused"), apierrors.NewTooManyRequests("busy", 1)} {
		server.down["g.example.com/v1"] = refused
		_, err := NewMapper(server).ofResource(t.Context(), gadgets("v1"))
		if waits := (*phase.WaitError)(nil); !errors.Is(err, refused) || errors.As(err, &waits) {
			t.Errorf("got %v, want %v", err, refused)
		}
	}
}

// A version or group that a user writes is no path to anything else.
func TestInvalidVersionIsNotRequested(t *testing.T) {
	server := serverWith(served("v1", "ConfigMap"))
	for _, version := range []schema.GroupVersion{{Version: "v1/namespaces"}, {Group: "../api", Version: "v1"}, {Group: "g.example.com", Version: "../.."}, {Group: "g"}} {
		if _, err := NewMapper(server).ofResource(t.Context(), version.WithResource("configmaps")); !meta.IsNoMatchError(err) {
			t.Errorf("%v: %v", version, err)
		}
	}
	if n := server.versions.Load(); n > 0 {
		t.Errorf("%d requests", n)
	}
}

func TestNameWhileGroupIsUnavailable(t *testing.T) {
	for format, of := range map[string]func(*fakeServer) discovery.DiscoveryInterfaceWithContext{
		"legacy":     func(s *fakeServer) discovery.DiscoveryInterfaceWithContext { return s },
		"aggregated": func(s *fakeServer) discovery.DiscoveryInterfaceWithContext { return aggregatedServer{s} },
	} {
		for name, waitsFor := range map[string]string{
			"gadget":                "the API groups apps.example.com, g.example.com",
			"gadgets.g.example.com": "the API group g.example.com",
			"gadget.g":              "the API group g.example.com",
			"gadget.apps":           "",
			"gadget.h.example.com":  "",
			"app.apps":              "found",
			"app":                   "found",
		} {
			t.Run(format+" "+name, func(t *testing.T) {
				server := serverWith(served("v1", "ConfigMap"), served("apps/v1", "App", "App/scale"))
				server.down["apps.example.com/v1"] = apierrors.NewServiceUnavailable("no endpoints")
				server.down["g.example.com/v1"] = server.down["apps.example.com/v1"]
				_, err := NewMapper(of(server)).named(t.Context(), schema.ParseGroupResource(name))
				switch {
				case waitsFor == "found":
					if err != nil {
						t.Error(err)
					}
				case waitsFor == "":
					if !meta.IsNoMatchError(err) {
						t.Errorf("got %v, want that it is not served", err)
					}
				default:
					wantWait(t, name, err, waitsFor)
				}
			})
		}
	}
}

// Many phases may wait for a group. They do not ask for the whole discovery each time.
func TestWaitingAsksInIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serverWith(served("v1", "ConfigMap"))
		server.down["g.example.com/v1"] = apierrors.NewServiceUnavailable("no endpoints")
		m := NewMapper(server)
		for range 100 {
			_, err := m.named(t.Context(), schema.ParseGroupResource("gadget"))
			wantWait(t, "gadget", err, "the API group g.example.com")
			time.Sleep(100 * time.Millisecond)
		}
		if n := server.whole.Load(); n != 2 {
			t.Errorf("in 10 s it was asked for %d times, want 2", n)
		}
	})
}

func TestFoundIsAskedForInIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serverWith(served("g.example.com/v1", "Gadget", "Gadget/scale"))
		m := NewMapper(server)
		for range 100 {
			if _, err := m.ofResource(t.Context(), gadgets("v1")); err != nil {
				t.Fatal(err)
			}
			if _, err := m.named(t.Context(), schema.ParseGroupResource("gadget")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		// The whole discovery of this server takes a request for each version.
		if n, whole := server.versions.Load()-server.whole.Load(), server.whole.Load(); n != 2 || whole != 2 {
			t.Errorf("in 10 s one version was asked for %d times, and all %d times, want 2", n, whole)
		}
	})
}

// What is not found is never an old answer, however recent: the CustomResourceDefinition may have been created meanwhile.
func TestNotFoundIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serverWith(served("v1", "ConfigMap"))
		m := NewMapper(server)
		name := schema.ParseGroupResource("gadget")
		if _, err := m.named(t.Context(), name); !meta.IsNoMatchError(err) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		server.Resources = append(server.Resources, served("g.example.com/v1", "Gadget"))
		if found, err := m.named(t.Context(), name); err != nil || found.scalable {
			t.Fatalf("%+v, %v", found, err)
		}
		time.Sleep(time.Millisecond)
		server.Resources[1] = served("g.example.com/v1", "Gadget", "Gadget/scale")
		if found, err := m.named(t.Context(), name); err != nil || !found.scalable {
			t.Errorf("it has a scale subresource now: %+v, %v", found, err)
		}
		time.Sleep(time.Millisecond)
		server.Resources[1] = served("g.example.com/v1", "Gadget", "Part")
		if _, err := m.ofKind(t.Context(), gadgets("v1").GroupVersion().WithKind("Part"), isFound); err != nil {
			t.Errorf("another kind of a known version: %v", err)
		}
	})
}

func TestVersionIsReplaced(t *testing.T) {
	for name, left := range map[string][]*metav1.APIResourceList{
		"with its kind alone":        {served("g.example.com/v2", "Gadget", "Gadget/scale")},
		"which serves another still": {served("g.example.com/v1", "Part"), served("g.example.com/v2", "Gadget", "Gadget/scale")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := serverWith(served("g.example.com/v1", "Gadget", "Gadget/scale", "Part"))
				m := NewMapper(server)
				named := schema.ParseGroupResource("gadget")
				if found, err := m.named(t.Context(), named); err != nil || found.Version != "v1" {
					t.Fatalf("%+v, %v", found, err)
				}
				time.Sleep(answerAge)
				server.Resources = left
				if found, err := m.named(t.Context(), named); err != nil || found.Version != "v2" || !found.scalable {
					t.Errorf("by its name: %+v, %v", found, err)
				}
				if found, err := m.ofOwner(t.Context(), gadgets("v1").GroupVersion().WithKind("Gadget")); err != nil || found.Version != "v2" {
					t.Errorf("in the reference to an owner: %+v, %v", found, err)
				}
				if _, err := m.ofResource(t.Context(), gadgets("v1")); !meta.IsNoMatchError(err) {
					t.Errorf("in the version that is gone: %v", err)
				}
			})
		})
	}
}

func TestRequestInServedVersion(t *testing.T) {
	notServed := apierrors.NewGenericServerResponse(404, "get", gadgets("v1").GroupResource(), "x", "404 page not found", 0, true)
	noObject := apierrors.NewNotFound(gadgets("v1").GroupResource(), "x")
	for name, c := range map[string]struct {
		served  []*metav1.APIResourceList
		down    string
		answers map[string]error // by version
		want    string
		sent    string
	}{
		"it is served":          {nil, "", map[string]error{"v1": nil}, "", "v1"},
		"there is no object":    {[]*metav1.APIResourceList{served("g.example.com/v2", "Gadget")}, "", map[string]error{"v1": noObject}, noObject.Error(), "v1"},
		"another version is":    {[]*metav1.APIResourceList{served("g.example.com/v2", "Gadget")}, "", map[string]error{"v1": notServed}, "", "v1 v2"},
		"no version is":         {[]*metav1.APIResourceList{served("h.example.com/v1", "Gadget")}, "", map[string]error{"v1": notServed}, notServed.Error(), "v1"},
		"the group is down":     {nil, "g.example.com/v2", map[string]error{"v1": notServed}, "the API group g.example.com to be available", "v1"},
		"the answers disagree":  {[]*metav1.APIResourceList{served("g.example.com/v1", "Gadget")}, "", map[string]error{"v1": notServed}, "lists g.example.com/v1, Resource=gadgets in its discovery and does not serve it", "v1"},
		"no object in the next": {[]*metav1.APIResourceList{served("g.example.com/v2", "Gadget")}, "", map[string]error{"v1": notServed, "v2": noObject}, noObject.Error(), "v1 v2"},
	} {
		t.Run(name, func(t *testing.T) {
			server := serverWith(c.served...)
			if c.down != "" {
				server.down[c.down] = apierrors.NewServiceUnavailable("no endpoints")
			}
			sent := ""
			of := target{Group: "g.example.com", APIVersion: "v1", Resource: "gadgets", Name: "x"}
			err := NewMapper(server).inServedVersion(t.Context(), of, isFound, func(t target) error {
				if sent != "" {
					sent += " "
				}
				sent += t.APIVersion
				return c.answers[t.APIVersion]
			})
			if c.want == "" && err != nil {
				t.Error(err)
			}
			if c.want != "" && err == nil {
				t.Errorf("no error, want %q", c.want)
			}
			if c.want != "" && err != nil {
				wantText(t, "the error", err.Error(), c.want)
			}
			_, definitive := phase.FailureOf(phase.Definitive(err))
			if gone := err != nil && apierrors.IsNotFound(err); definitive != gone {
				t.Errorf("ends the phase: %t: %v", definitive, err)
			}
			if sent != c.sent {
				t.Errorf("sent in %s, want %s", sent, c.sent)
			}
		})
	}
}

// Discovery is behind after a change of a CustomResourceDefinition. That ends no phase.
func TestDiscoveryIsBehind(t *testing.T) {
	server := serverWith(served("g.example.com/v1", "Gadget", "Gadget/scale"))
	behind := aggregatedServer{server}
	server.removed = "g.example.com/v1"
	_, err := NewMapper(behind).named(t.Context(), schema.ParseGroupResource("gadget"))
	if err == nil || meta.IsNoMatchError(err) {
		t.Errorf("got %v, want an error that is retried", err)
	}
	server.removed = ""
	if found, err := NewMapper(behind).named(t.Context(), schema.ParseGroupResource("gadget")); err != nil || !found.scalable {
		t.Errorf("%+v, %v", found, err)
	}
}
