// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podwire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of a PodList.
const (
	listMetadata = 1
	listItem     = 2
)

// listBuffer is how much of a list is read at a time, in bytes.
const listBuffer = 64 << 10

// ReadList reads a list of Pods, and shows them one after the other: each only until see returns.
func ReadList(body io.Reader, see func(*corev1.Pod)) (metadata metav1.ListMeta, err error) {
	l := &listReader{Reader: bufio.NewReaderSize(body, listBuffer)}
	start := make([]byte, len(magic))
	if _, err := io.ReadFull(l, start); err != nil || !bytes.Equal(start, magic) {
		return metadata, wrong("a list of Pods", errNotProtobuf)
	}
	found := false
	for {
		number, size, err := l.next()
		switch {
		case err == io.EOF && found:
			return metadata, nil
		case err != nil:
			return metadata, wrong("a list of Pods", unexpected(err))
		case number == envelopeContent:
			found = true
			err = l.readItems(size, &metadata, see)
		default:
			err = l.readType(number, size)
		}
		if err != nil {
			return metadata, wrong("a list of Pods", unexpected(err))
		}
	}
}

// unexpected is the error where there has to be more.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// listReader reads fields that are all of bytes, as those of a list and of its envelope are.
type listReader struct {
	*bufio.Reader
	read   int // bytes of fields so far
	buffer []byte
	pod    corev1.Pod
}

// next reads up to the bytes of a field.
func (l *listReader) next() (number protowire.Number, size int, err error) {
	tag, err := l.number()
	if err != nil {
		return 0, 0, err
	}
	number, kind := protowire.DecodeTag(tag)
	if kind != protowire.BytesType || number < protowire.MinValidNumber {
		return 0, 0, fmt.Errorf("a field %d has the type %d", number, kind)
	}
	length, err := l.number()
	if err != nil {
		return 0, 0, unexpected(err)
	}
	const most = 1 << 31
	if length >= most {
		return 0, 0, fmt.Errorf("a field %d has %d bytes", number, length)
	}
	return number, int(length), nil
}

func (l *listReader) number() (uint64, error) {
	value, err := binary.ReadUvarint(l)
	l.read += protowire.SizeVarint(value)
	return value, err
}

// bytes are those of a field, until the next.
func (l *listReader) bytes(size int) ([]byte, error) {
	if cap(l.buffer) < size {
		l.buffer = make([]byte, size)
	}
	l.read += size
	l.buffer = l.buffer[:size]
	_, err := io.ReadFull(l, l.buffer)
	return l.buffer, unexpected(err)
}

// readType makes sure that it is a list of Pods. Other fields of the envelope are skipped.
func (l *listReader) readType(number protowire.Number, size int) error {
	message, err := l.bytes(size)
	if err != nil || number != envelopeType {
		return err
	}
	kind, err := readKind(message)
	if err == nil && kind != "PodList" {
		return fmt.Errorf("it is a %q", kind)
	}
	return err
}

// readItems reads the list, which has the given size in bytes.
func (l *listReader) readItems(size int, metadata *metav1.ListMeta, see func(*corev1.Pod)) error {
	for end := l.read + size; l.read < end; {
		number, size, err := l.next()
		if err != nil {
			return err
		}
		message, err := l.bytes(size)
		if err != nil {
			return err
		}
		switch number {
		case listMetadata:
			err = metadata.Unmarshal(message)
		case listItem:
			reset(&l.pod)
			if err = readPod(&l.pod, message); err == nil {
				see(&l.pod)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
