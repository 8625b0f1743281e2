// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

const (
	// maxExpanded is how long a YAML document may be with all aliases written out, in bytes. The API server stores no larger object.
	maxExpanded = 3 << 19
	// nodeLength is what a value adds to this length in addition to its text.
	nodeLength = 2
)

// checkAliases returns an error if a document would be too long with all aliases written out: a short text can name the same value any number of times.
func checkAliases(text string) error {
	if !strings.Contains(text, "*") || !strings.Contains(text, "&") {
		return nil
	}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var root yaml.Node
		if err := yaml.Unmarshal(document, &root); err != nil {
			return err
		}
		if expandedLength(&root, map[*yaml.Node]int{}) > maxExpanded {
			return fmt.Errorf("the document has more than %d bytes with all aliases (*) written out", maxExpanded)
		}
	}
}

// expandedLength returns about how long a value is with all aliases written out, in bytes; more than maxExpanded if it is longer than that, or contains
// itself. anchored are the lengths of values that aliases may name.
func expandedLength(node *yaml.Node, anchored map[*yaml.Node]int) int {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if length, ok := anchored[node]; ok {
		return length
	}
	if node.Anchor != "" {
		anchored[node] = maxExpanded + 1 // for an alias in the value itself
	}
	length := len(node.Value) + nodeLength
	for _, child := range node.Content {
		length = min(length+expandedLength(child, anchored), maxExpanded+1)
	}
	if node.Anchor != "" {
		anchored[node] = length
	}
	return length
}
