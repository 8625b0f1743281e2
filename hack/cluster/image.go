//go:build node

package main

import (
	"github.com/spf13/cobra"

	"millwright.dev/hack/cluster/images"
)

func newImageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make images of binaries, and load images into the node of a cluster",
	}
	cmd.AddCommand(newImagePackCommand(), newImageLoadCommand())
	return cmd
}

func newImagePackCommand() *cobra.Command {
	var image images.Image
	cmd := &cobra.Command{
		Use:   "pack --name NAME:TAG BINARY FILE.tar",
		Short: "Make an image of a statically linked binary, as an archive",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			image.Binary = args[0]
			return images.Pack(image, args[1])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&image.Name, "name", "", "full name of the image with a tag, for instance example.com/app:1")
	flags.StringSliceVar(&image.Entrypoint, "entrypoint", nil, "command line; its first word is the path of the binary in the image (default /NAME-OF-BINARY)")
	flags.StringVar(&image.User, "user", images.DefaultUser, "user, or user and group, as numbers: UID or UID:GID")
	if err := cmd.MarkFlagRequired("name"); err != nil {
		panic(err)
	}
	return cmd
}
