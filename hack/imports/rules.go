// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path"
	"slices"
	"strings"
)

// rule is one reason why a file must not import a package.
type rule struct {
	// why is what the user who broke the rule reads.
	why string
	// breaks reports whether it is broken.
	breaks func(importer file, imported string) bool
}

// The layers, from the top. Imports go down only.
//
//	cmd         the binary
//	manager     builds, starts and joins the controllers; its controllers.go is the table
//	webhook, apiserver, registry
//	kinds       pkg/controller/<kind>, one controller each
//	engine      pkg/controller/engine, what the kinds composite and decorator share
//	controller  what they share
//	domains     any other folder of pkg, but testing: what only tests import
//	generated   clients, listers, informers, apply configurations
//	apis        the types
var rules = []rule{
	{
		why: "k8s.io/kubernetes is not made to be imported; only hack/cluster, a module of its own, does",
		breaks: func(_ file, imported string) bool {
			return within(imported, "k8s.io/kubernetes")
		},
	},
	{
		why: "types import only types: programs that use our API would get the rest too",
		breaks: func(importer file, imported string) bool {
			return importer.in("pkg/apis") && ours(imported) && !oursIn(imported, "pkg/apis")
		},
	},
	{
		why: "generated code stands on the types alone",
		breaks: func(importer file, imported string) bool {
			return importer.in("pkg/generated") && ours(imported) && !oursIn(imported, "pkg/apis", "pkg/generated")
		},
	},
	{
		why: "a domain knows nothing of who uses it: no controller, no manager, no server",
		breaks: func(importer file, imported string) bool {
			return importer.isDomain() && !importer.isTest() && oursIn(imported, append(servers, "pkg/controller", "pkg/manager", "cmd")...)
		},
	},
	{
		why: "what all controllers share knows none of them, nor who runs them",
		breaks: func(importer file, imported string) bool {
			return importer.dir() == "pkg/controller" && !importer.isTest() && (kindOf(imported) != "" || oursIn(imported, append(servers, "pkg/manager", "cmd")...))
		},
	},
	{
		why: "a controller never imports another kind's controller: they meet in the API, or share a domain",
		breaks: func(importer file, imported string) bool {
			return importer.kind() != "" && kindOf(imported) != "" && kindOf(imported) != importer.kind()
		},
	},
	{
		why: "the engine knows nothing of the kinds that use it, and what all controllers share nothing of the engine",
		breaks: func(importer file, imported string) bool {
			return importer.in(engine) && !importer.isTest() && kindOf(imported) != "" || importer.dir() == "pkg/controller" && oursIn(imported, engine)
		},
	},
	{
		why: "a controller does not know who runs it, nor the servers",
		breaks: func(importer file, imported string) bool {
			return (importer.kind() != "" || importer.in(engine)) && !importer.isTest() && oursIn(imported, append(servers, "pkg/manager", "cmd")...)
		},
	},
	{
		why: "the servers do not know the controllers, nor the manager",
		breaks: func(importer file, imported string) bool {
			return importer.in(servers...) && oursIn(imported, "pkg/controller", "pkg/manager", "cmd")
		},
	},
	{
		why: "the manager knows controllers through its table alone: only controllers.go imports them",
		breaks: func(importer file, imported string) bool {
			return importer.in("pkg/manager") && !importer.isTest() && importer.path != "pkg/manager/controllers.go" && kindOf(imported) != ""
		},
	},
	{
		why: "the manager is below the binary and next to the servers",
		breaks: func(importer file, imported string) bool {
			return importer.in("pkg/manager") && oursIn(imported, append(servers, "cmd")...)
		},
	},
	{
		why: "the binary only reads flags and calls the manager or a server",
		breaks: func(importer file, imported string) bool {
			return importer.in("cmd") && !importer.isTest() && (kindOf(imported) != "" || oursIn(imported, "pkg/registry"))
		},
	},
	{
		why: "that is made for tests: only tests import it",
		breaks: func(importer file, imported string) bool {
			return !importer.isTest() && oursIn(imported, testSupport)
		},
	},
	{
		why: "hack is for development: nothing that is shipped stands on it",
		breaks: func(importer file, imported string) bool {
			return !importer.in("hack") && oursIn(imported, "hack")
		},
	},
	{
		why: "a pure file gets what was observed and returns what to do: no clients, caches, network, files, clock or randomness",
		breaks: func(importer file, imported string) bool {
			return importer.pure && (within(imported, impureImports...) || oursIn(imported, "pkg/generated/clientset", "pkg/generated/listers", "pkg/generated/informers"))
		},
	},
}

// engine is what some kinds share, and no others use.
const engine = "pkg/controller/engine"

// testSupport is the code that only tests need. It may import everything.
const testSupport = "pkg/testing"

// servers are the layers that serve requests.
var servers = []string{"pkg/webhook", "pkg/apiserver", "pkg/registry"}

// file is a Go file: its path relative to the root of the module, and whether it declares that it is pure.
type file struct {
	path string
	pure bool
}

func (f file) dir() string { return path.Dir(f.path) }

func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") || f.in(testSupport) }

func (f file) in(dirs ...string) bool { return within(f.path, dirs...) }

// kind returns the folder below pkg/controller that the file is in, "" if it is in none.
func (f file) kind() string { return kindOf(module + "/" + f.dir()) }

func (f file) isDomain() bool {
	return f.in("pkg") && !f.in(append(servers, "pkg/apis", "pkg/generated", "pkg/controller", "pkg/manager", testSupport)...)
}

// kindOf returns the name of the controller that a package belongs to, "" if it belongs to none.
func kindOf(imported string) string {
	rest, found := strings.CutPrefix(imported, module+"/pkg/controller/")
	if !found || oursIn(imported, engine) {
		return ""
	}
	kind, _, _ := strings.Cut(rest, "/")
	return kind
}

func ours(imported string) bool { return within(imported, module) }

// oursIn reports whether a package is in one of the folders of this module.
func oursIn(imported string, dirs ...string) bool {
	rest, found := strings.CutPrefix(imported, module+"/")
	return found && within(rest, dirs...)
}

// within reports whether a path is one of the others or below it.
func within(name string, parents ...string) bool {
	return slices.ContainsFunc(parents, func(parent string) bool {
		return name == parent || strings.HasPrefix(name, parent+"/")
	})
}
