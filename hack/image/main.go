// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image packs Millwright's image without a container engine, from the same build context that the Dockerfile takes:
//
//	CONTEXT/ca-certificates.crt
//	CONTEXT/linux_amd64/millwright, and so for every other platform
//
// The same context always makes the same image, down to the digest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const usage = `usage: image certificates            print the root certificates that the image has
       image [flags] REFERENCE       pack the image and name it, as in example.com/millwright:v1.0.0

`

type options struct {
	reference name.Reference
	context   string
	platforms []string
	version   string
	created   time.Time
	maxBytes  int64
	output    string
	push      bool
}

func main() {
	ctx, restoreSignals := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restoreSignals)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 1 && args[0] == "certificates" {
		return writeCertificates(stdout)
	}
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	index, err := buildIndex(o)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("computing the digest: %w", err)
	}
	if o.output != "" {
		if err := writeArchive(o.output, o.reference, index); err != nil {
			return fmt.Errorf("writing %s: %w", o.output, err)
		}
		fmt.Fprintf(stdout, "%s has %s@%s\n", o.output, o.reference, digest)
	}
	if o.push {
		if err := push(ctx, o.reference, index); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "Pushed %s@%s\n", o.reference, digest)
	}
	return describe(stdout, index)
}

func parseOptions(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.context, "context", "bin/image", "directory of the build context")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "the platforms, each of which the context has a binary for")
	flags.StringVar(&o.version, "version", "", "version of the image, for its labels")
	created := flags.Int64("created", 0, "creation time of the image, in seconds since 1970: for instance the time of the commit")
	flags.Int64Var(&o.maxBytes, "max-bytes", 60_000_000, "what one platform may have, compressed: it is pulled to every node")
	flags.StringVar(&o.output, "output", "", "file to write the image to: an OCI layout in a tar archive, as docker load, podman load and ctr images import read it")
	flags.BoolVar(&o.push, "push", false, "push the image to the registry of REFERENCE, with the credentials of docker login")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return o, fmt.Errorf("it takes one REFERENCE, not %d arguments", flags.NArg())
	}
	if o.output == "" && !o.push {
		return o, errors.New("nothing to do: give --output, --push, or both")
	}
	if o.reference, err = name.ParseReference(flags.Arg(0)); err != nil {
		return o, fmt.Errorf("the name of the image: %w", err)
	}
	o.platforms = strings.Split(*platforms, ",")
	o.created = time.Unix(*created, 0).UTC()
	return o, nil
}

func push(ctx context.Context, reference name.Reference, index v1.ImageIndex) error {
	if err := remote.WriteIndex(reference, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	return nil
}

// describe lists the platforms with their sizes as they are pulled.
func describe(stdout io.Writer, index v1.ImageIndex) error {
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, descriptor := range manifest.Manifests {
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			return err
		}
		size, err := compressedSize(image)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "  %-12s %s MB compressed  %s\n", descriptor.Platform, strconv.FormatFloat(float64(size)/1e6, 'f', 1, 64), descriptor.Digest)
	}
	return nil
}
