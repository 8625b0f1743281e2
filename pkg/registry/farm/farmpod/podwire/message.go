// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podwire

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// field of a message: bytes (also a string, or a message) or a number.
type field struct {
	number protowire.Number
	bytes  []byte
	value  uint64
}

func (f field) string() string { return string(f.bytes) }

// eachField shows the fields of a message one after the other. Those of types that nothing here has are left out.
func eachField(message []byte, see func(field) error) error {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		message = message[size:]
		f, known := field{number: number}, true
		switch kind {
		case protowire.BytesType:
			f.bytes, size = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			f.value, size = protowire.ConsumeVarint(message)
		default:
			size, known = protowire.ConsumeFieldValue(number, kind, message), false
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		message = message[size:]
		if !known {
			continue
		}
		if err := see(f); err != nil {
			return err
		}
	}
	return nil
}

// Fields of the envelope (runtime.Unknown) and of the type in it.
const (
	envelopeType    = 1
	envelopeContent = 2
	typeKind        = 2
)

// magic comes before the envelope.
var magic = []byte("k8s\x00")

var errNotProtobuf = errors.New("it is not what the API server calls protobuf")

// open takes an object out of its envelope.
func open(object []byte) (kind string, content []byte, err error) {
	envelope, ok := bytes.CutPrefix(object, magic)
	if !ok {
		return "", nil, errNotProtobuf
	}
	err = eachField(envelope, func(f field) (err error) {
		switch f.number {
		case envelopeType:
			kind, err = readKind(f.bytes)
		case envelopeContent:
			content = f.bytes
		}
		return err
	})
	return kind, content, err
}

func readKind(message []byte) (kind string, err error) {
	err = eachField(message, func(f field) error {
		if f.number == typeKind {
			kind = f.string()
		}
		return nil
	})
	return kind, err
}

// wrong returns an error that names what could not be read.
func wrong(what string, err error) error { return fmt.Errorf("reading %s: %w", what, err) }
