// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"text/template/parse"
)

// The functions that instrument puts into templates. A template that calls them itself only pays more.
const (
	enterFunction = "_enter"
	stepFunction  = "_step"
	printFunction = "_print"
)

// instrument makes a parsed template pay: where it begins, for each turn of a loop, and for each value that it prints. The
// engine cannot be interrupted otherwise: it executes {{range 1000000000}}{{end}} without calling anything.
func instrument(tree *parse.Tree) {
	charge(tree, tree.Root)
	tree.Root.Nodes = append([]parse.Node{call(tree, enterFunction)}, tree.Root.Nodes...)
}

func charge(tree *parse.Tree, list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch node := node.(type) {
		case *parse.ActionNode:
			// Only a pipeline without a declaration prints.
			if len(node.Pipe.Decl) == 0 {
				node.Pipe.Cmds = append(node.Pipe.Cmds, command(tree, printFunction))
			}
		case *parse.IfNode:
			charge(tree, node.List)
			charge(tree, node.ElseList)
		case *parse.WithNode:
			charge(tree, node.List)
			charge(tree, node.ElseList)
		case *parse.RangeNode:
			charge(tree, node.List)
			charge(tree, node.ElseList)
			node.List.Nodes = append([]parse.Node{call(tree, stepFunction)}, node.List.Nodes...)
		}
	}
}

// call is {{name}}. The function gives an empty string, so that nothing is printed.
func call(tree *parse.Tree, name string) parse.Node {
	return &parse.ActionNode{NodeType: parse.NodeAction, Pipe: &parse.PipeNode{
		NodeType: parse.NodePipe, Cmds: []*parse.CommandNode{command(tree, name)},
	}}
}

func command(tree *parse.Tree, name string) *parse.CommandNode {
	return &parse.CommandNode{NodeType: parse.NodeCommand, Args: []parse.Node{parse.NewIdentifier(name).SetTree(tree)}}
}
