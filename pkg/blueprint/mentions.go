// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"maps"
	"slices"
	"text/template/parse"
)

// Mentions are the members of Params that templates may use. What is not mentioned need not be read. A template mentions .Secrets.x by that text, or by
// index .Secrets "x". If it uses .Secrets in another way, as in range .Secrets, it mentions all members of it.
type Mentions struct {
	all     bool
	members map[string]*Mentions
}

// mentionDepth is how many names of a path are known, as in .Phases.x.Secrets.y.
const mentionDepth = 4

// Has reports whether the member with this path is mentioned: itself, any member of it, or all members of what it is in.
func (m *Mentions) Has(path ...string) bool {
	for _, name := range path {
		if m.all {
			return true
		}
		if m = m.members[name]; m == nil {
			return false
		}
	}
	return true
}

// Within returns what is mentioned of the members of the one with this path, without the templates that use that one as a whole.
func (m *Mentions) Within(path ...string) *Mentions {
	for _, name := range path {
		if m = m.members[name]; m == nil {
			return &Mentions{}
		}
	}
	return &Mentions{members: m.members}
}

// AddArgs adds what the arguments of a phase mention. A template that cannot be parsed or paid for mentions nothing: Args returns an error for it. The
// error is only that of a Budget that was stopped.
func (m *Mentions) AddArgs(b *Budget, function Function, args map[string]any) error {
	m.addValue(b, args, function.Raw)
	return b.Stopped()
}

// AddTexts adds what the values of a map mention. The error is as for AddArgs.
func (m *Mentions) AddTexts(b *Budget, texts map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		m.addText(b, texts[key])
	}
	return b.Stopped()
}

// addValue goes by the order of the keys, as rendering does: where the Budget ends, rendering does not go further.
func (m *Mentions) addValue(b *Budget, value any, raw []string) {
	switch value := value.(type) {
	case string:
		m.addText(b, value)
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if !slices.Contains(raw, key) {
				m.addText(b, key)
				m.addValue(b, value[key], raw)
			}
		}
	case []any:
		for _, element := range value {
			m.addValue(b, element, raw)
		}
	}
}

func (m *Mentions) addText(b *Budget, source string) {
	if isPlain(source) || payForSource(b, source) != nil {
		return
	}
	defer func() {
		if recover() != nil {
			m.add(nil) // rendering returns the error
		}
	}()
	tree, defined := parse.New(templateName), map[string]*parse.Tree{}
	tree.Mode = parse.SkipFuncCheck
	if _, err := tree.Parse(source, "", "", defined); err != nil {
		return
	}
	// The template of that name is the one that is rendered, also if it is defined in another one without a text.
	for name, each := range defined {
		main := name == templateName
		(&mentioner{found: m, main: main}).list(each.Root, main, 0)
	}
}

// add adds the member with this path, and all members of it.
func (m *Mentions) add(path []string) {
	for _, name := range path {
		if m.members == nil {
			m.members = map[string]*Mentions{}
		}
		if m.members[name] == nil {
			m.members[name] = &Mentions{}
		}
		m = m.members[name]
	}
	m.all = true
}

// mentioner finds what a parsed template mentions. Each value of a template comes from a path that begins at the root, and is found there: in the blocks of
// with and range, in variables, and in other templates that get it, the value itself is not followed any more.
type mentioner struct {
	found *Mentions
	// main: the variable $ is the root.
	main bool
}

// list finds what the nodes mention. root: the dot is the root. A template that is nested deeper than maxNesting cannot be rendered.
func (w *mentioner) list(list *parse.ListNode, root bool, depth int) {
	if list == nil || depth > maxNesting {
		return
	}
	branch := func(of *parse.BranchNode, rootInside bool) {
		w.pipe(of.Pipe, root, depth+1)
		w.list(of.List, rootInside, depth+1)
		w.list(of.ElseList, root, depth+1)
	}
	for _, node := range list.Nodes {
		switch node := node.(type) {
		case *parse.ActionNode:
			w.pipe(node.Pipe, root, depth+1)
		case *parse.IfNode:
			branch(&node.BranchNode, root)
		case *parse.WithNode:
			branch(&node.BranchNode, false)
		case *parse.RangeNode:
			branch(&node.BranchNode, false)
		case *parse.TemplateNode:
			w.pipe(node.Pipe, root, depth+1)
		}
	}
}

func (w *mentioner) pipe(pipe *parse.PipeNode, root bool, depth int) {
	if pipe == nil || depth > maxNesting {
		return
	}
	for _, command := range pipe.Cmds {
		w.mention(w.command(command, root, depth))
	}
}

func (w *mentioner) mention(path []string, ok bool) {
	if ok {
		w.found.add(path)
	}
}

// command returns the path of what a command gives, if it is a member of the root, or an index by texts. Otherwise it finds what the command mentions.
func (w *mentioner) command(command *parse.CommandNode, root bool, depth int) (path []string, ok bool) {
	if len(command.Args) == 1 {
		return w.argument(command.Args[0], root, depth+1)
	}
	function, is := command.Args[0].(*parse.IdentifierNode)
	if !is || function.Ident != "index" {
		for _, arg := range command.Args {
			w.mention(w.argument(arg, root, depth+1))
		}
		return nil, false
	}
	path, ok = w.argument(command.Args[1], root, depth+1)
	byTexts := true
	for _, arg := range command.Args[2:] {
		if text, is := arg.(*parse.StringNode); is && byTexts {
			path = below(path, text.Text)
			continue
		}
		byTexts = false
		w.mention(w.argument(arg, root, depth+1))
	}
	if !byTexts {
		w.mention(path, ok)
		return nil, false
	}
	return path, ok
}

// argument returns the path of what an argument is, if that is a member of the root. The path of the root is empty. Otherwise it finds what the argument
// mentions.
func (w *mentioner) argument(arg parse.Node, root bool, depth int) (path []string, ok bool) {
	switch arg := arg.(type) {
	case *parse.DotNode:
		return nil, root
	case *parse.FieldNode:
		return below(nil, arg.Ident...), root
	case *parse.VariableNode:
		return below(nil, arg.Ident[1:]...), w.main && arg.Ident[0] == "$"
	case *parse.ChainNode:
		if depth > maxNesting {
			return nil, false
		}
		path, ok = w.argument(arg.Node, root, depth)
		return below(path, arg.Field...), ok
	case *parse.PipeNode:
		if len(arg.Decl) == 0 && len(arg.Cmds) == 1 && depth <= maxNesting {
			return w.command(arg.Cmds[0], root, depth)
		}
		w.pipe(arg, root, depth)
	}
	return nil, false
}

// below returns a path with more names at its end, as far as they are known.
func below(path []string, names ...string) []string {
	return append(slices.Clone(path), names[:max(0, min(len(names), mentionDepth-len(path)))]...)
}
