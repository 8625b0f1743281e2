// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// pureDirective declares, on a line of its own above the package clause, that a file decides and builds without doing anything: it has no
// clients, caches, network, files, clock or randomness.
const pureDirective = directivePrefix + "pure"

const directivePrefix = "//millwright:"

// impureImports are the packages that pure files do not import, with all below them.
var impureImports = []string{
	"context", "io/fs", "math/rand", "crypto/rand", "net", "os", "syscall",
	"k8s.io/client-go/discovery", "k8s.io/client-go/dynamic", "k8s.io/client-go/informers", "k8s.io/client-go/kubernetes",
	"k8s.io/client-go/listers", "k8s.io/client-go/metadata", "k8s.io/client-go/rest", "k8s.io/client-go/scale",
	"k8s.io/client-go/tools", "k8s.io/client-go/transport", "k8s.io/client-go/util/workqueue", "k8s.io/klog", "k8s.io/utils/clock",
}

// impureFunctions are the functions that pure files do not call, by package. They are in packages that have pure functions too.
var impureFunctions = map[string][]string{
	"time":                                 {"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
	"k8s.io/apimachinery/pkg/apis/meta/v1": {"Now", "NowMicro"},
	"k8s.io/apimachinery/pkg/util/rand":    {"Int", "Int63nRange", "IntnRange", "Intn", "Perm", "Seed", "String"},
	"k8s.io/apimachinery/pkg/util/uuid":    {"NewUUID"},
	"k8s.io/apimachinery/pkg/util/wait":    {"Jitter"},
	module + "/pkg/controller":             {"Reconcile", "Parallel"},
}

// isPure reports whether the file declares that it is pure.
func isPure(parsed *ast.File) bool {
	return slices.ContainsFunc(directives(parsed), func(comment *ast.Comment) bool {
		return comment.Text == pureDirective && comment.End() < parsed.Package
	})
}

// misplacedDirectives returns the directives of this module that have no effect.
func misplacedDirectives(parsed *ast.File) []*ast.Comment {
	return slices.DeleteFunc(directives(parsed), func(comment *ast.Comment) bool {
		return comment.Text == pureDirective && comment.End() < parsed.Package
	})
}

func directives(parsed *ast.File) (found []*ast.Comment) {
	for _, group := range parsed.Comments {
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, directivePrefix) {
				found = append(found, comment)
			}
		}
	}
	return found
}

type impureCall struct {
	node ast.Node
	name string
}

// impureCalls returns the uses of impure functions, under whatever names their packages are imported.
func impureCalls(parsed *ast.File) (calls []impureCall) {
	functions := map[string][]string{}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // it does not compile
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		functions[name] = impureFunctions[imported]
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if pkg, ok := selector.X.(*ast.Ident); ok && slices.Contains(functions[pkg.Name], selector.Sel.Name) {
				calls = append(calls, impureCall{selector, pkg.Name + "." + selector.Sel.Name})
			}
		}
		return true
	})
	return calls
}
