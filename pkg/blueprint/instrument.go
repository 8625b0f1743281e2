// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"fmt"
	"reflect"
	"text/template"
	"text/template/parse"
)

// The functions that instrument puts into templates. A template that calls them itself only pays more.
const (
	enterFunction = "_enter"
	leaveFunction = "_leave"
	stepFunction  = "_step"
	printFunction = "_print"
	rangeFunction = "_range"
)

// visitCost is what it costs the engine to execute a node of a template, apart from what the node calls.
const visitCost = 20

// hooks are these functions.
func hooks(b *Budget) template.FuncMap {
	return template.FuncMap{
		enterFunction: func(cost int) (string, error) {
			if err := b.enter(); err != nil {
				return "", err
			}
			return "", b.pay(float64(cost))
		},
		leaveFunction: func() string {
			b.leave()
			return ""
		},
		stepFunction:  func(cost int) (string, error) { return "", b.pay(float64(cost)) },
		rangeFunction: func(value any) (any, error) { return value, b.iterate(reflect.ValueOf(value)) },
	}
}

// iterate pays for what a loop does before its first turn: the keys of a map are sorted. The engine's own error shows the value.
func (b *Budget) iterate(value reflect.Value) error {
	for value.Kind() == reflect.Pointer && !value.IsNil() {
		value = value.Elem()
	}
	switch value.Kind() {
	case reflect.Map:
		t, err := b.tally(reflect.ValueOf(value.MapKeys()))
		if err != nil {
			return err
		}
		return b.pay(100*t.nodes + t.bytes)
	case reflect.Array, reflect.Slice, reflect.String, reflect.Invalid:
		return nil
	default:
		if value.CanInt() || value.CanUint() {
			return nil
		}
		return fmt.Errorf("range can't iterate over a value of type %s", value.Type())
	}
}

// instrument makes a parsed template pay: where it begins, for each turn of a loop, and for each value that it prints or gives to a
// method. The engine cannot be interrupted otherwise: it executes {{range 1000000000}}{{end}} without calling anything. A template that
// is nested too deeply is an error: executing it takes memory that cannot be paid for.
func instrument(tree *parse.Tree) error {
	i := &instrumenter{tree: tree}
	cost := callCost + i.list(tree.Root, 0)
	nodes := append([]parse.Node{i.call(enterFunction, cost)}, tree.Root.Nodes...)
	tree.Root.Nodes = append(nodes, i.call(leaveFunction))
	if i.deepest > maxNesting {
		return errNesting
	}
	return nil
}

type instrumenter struct {
	tree    *parse.Tree
	deepest int
}

// list returns what it costs to execute the nodes once, without the turns of loops.
func (i *instrumenter) list(list *parse.ListNode, depth int) (cost int) {
	i.deepest = max(i.deepest, depth)
	if list == nil || depth > maxNesting {
		return 0
	}
	branch := func(of *parse.BranchNode) {
		cost += i.pipe(of.Pipe, depth+1) + i.list(of.ElseList, depth+1)
	}
	for _, node := range list.Nodes {
		cost += visitCost
		switch node := node.(type) {
		case *parse.ActionNode:
			cost += i.pipe(node.Pipe, depth+1)
			// Only a pipeline without a declaration prints.
			if len(node.Pipe.Decl) == 0 {
				node.Pipe.Cmds = append(node.Pipe.Cmds, i.command(printFunction))
			}
		case *parse.IfNode:
			branch(&node.BranchNode)
			cost += i.list(node.List, depth+1)
		case *parse.WithNode:
			branch(&node.BranchNode)
			cost += i.list(node.List, depth+1)
		case *parse.RangeNode:
			branch(&node.BranchNode)
			node.Pipe.Cmds = append(node.Pipe.Cmds, i.command(rangeFunction))
			step := i.call(stepFunction, callCost+i.list(node.List, depth+1))
			node.List.Nodes = append([]parse.Node{step}, node.List.Nodes...)
		case *parse.TemplateNode:
			cost += callCost + i.pipe(node.Pipe, depth+1)
		}
	}
	return cost
}

func (i *instrumenter) pipe(pipe *parse.PipeNode, depth int) (cost int) {
	i.deepest = max(i.deepest, depth)
	if pipe == nil || depth > maxNesting {
		return 0
	}
	var commands []*parse.CommandNode
	for n, command := range pipe.Cmds {
		_, function := command.Args[0].(*parse.IdentifierNode)
		for a, arg := range command.Args {
			cost += i.argument(arg, depth+1)
			if a > 0 && !function {
				command.Args[a] = i.paid(arg)
			}
		}
		if function {
			cost += callCost
		} else if n > 0 {
			commands = append(commands, i.command(printFunction))
		}
		commands = append(commands, command)
	}
	pipe.Cmds = commands
	return cost
}

// argument returns what it costs to evaluate one. Names are looked up in maps.
func (i *instrumenter) argument(arg parse.Node, depth int) int {
	switch arg := arg.(type) {
	case *parse.PipeNode:
		return visitCost + i.pipe(arg, depth)
	case *parse.ChainNode:
		return visitCost + fields(arg.Field) + i.argument(arg.Node, depth)
	case *parse.FieldNode:
		return visitCost + fields(arg.Ident)
	case *parse.VariableNode:
		return visitCost + fields(arg.Ident)
	default:
		return visitCost
	}
}

func fields(names []string) (cost int) {
	for _, name := range names {
		cost += 2*visitCost + len(name)/4
	}
	return cost
}

// paid is (_print arg): what a method is given.
func (i *instrumenter) paid(arg parse.Node) parse.Node {
	command := i.command(printFunction)
	command.Args = append(command.Args, arg)
	return &parse.PipeNode{NodeType: parse.NodePipe, Cmds: []*parse.CommandNode{command}}
}

// call is {{name numbers}}. The function gives an empty text, so that nothing is printed.
func (i *instrumenter) call(name string, numbers ...int) parse.Node {
	command := i.command(name)
	for _, number := range numbers {
		command.Args = append(command.Args, &parse.NumberNode{
			NodeType: parse.NodeNumber, IsInt: true, Int64: int64(number), Text: fmt.Sprint(number),
		})
	}
	return &parse.ActionNode{NodeType: parse.NodeAction, Pipe: &parse.PipeNode{
		NodeType: parse.NodePipe, Cmds: []*parse.CommandNode{command},
	}}
}

func (i *instrumenter) command(name string) *parse.CommandNode {
	return &parse.CommandNode{NodeType: parse.NodeCommand, Args: []parse.Node{parse.NewIdentifier(name).SetTree(i.tree)}}
}
