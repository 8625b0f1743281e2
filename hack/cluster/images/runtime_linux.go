package images

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/wait"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is a containerd with its CRI plugin, by which kubelet uses it.
type Runtime struct {
	// folder holds the socket. It is used by its descriptor, or as working directory, because the name of a socket is limited
	// to some 100 characters, which that of the folder may exceed.
	folder     *os.File
	socket     string
	connection *grpc.ClientConn
	images     runtimeapi.ImageServiceClient
}

// visible is how long a loaded image takes at most to be seen by kubelet.
const visible = 10 * time.Second

// At returns the containerd that listens, or will listen, on the socket. Close it.
func At(socket string) (*Runtime, error) {
	folder, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return nil, fmt.Errorf("looking for containerd: %w", err)
	}
	r := &Runtime{folder: folder, socket: filepath.Base(socket)}
	r.connection, err = grpc.NewClient("passthrough:///"+r.socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), r.socket))
		}))
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	r.images = runtimeapi.NewImageServiceClient(r.connection)
	return r, nil
}

// Close releases what At has opened.
func (r *Runtime) Close() error {
	return errors.Join(r.connection.Close(), r.folder.Close())
}

// Names returns the names of all images that kubelet can use. It is an error when containerd does not answer.
func (r *Runtime) Names(ctx context.Context) ([]string, error) {
	response, err := r.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	var names []string
	for _, image := range response.Images {
		names = append(names, image.RepoTags...)
		names = append(names, image.RepoDigests...)
	}
	return names, nil
}

// Load brings the images of an archive, made by Pack, "docker save" or anything else that containerd understands, into containerd.
// When it returns, Pods can use them.
func (r *Runtime) Load(ctx context.Context, archive string) error {
	archive, err := filepath.Abs(archive)
	if err != nil {
		return err
	}
	// The error of ctr about a missing file is less clear.
	if _, err := os.Stat(archive); err != nil {
		return fmt.Errorf("loading images: %w", err)
	}
	before, err := r.list(ctx)
	if err != nil {
		return err
	}
	if _, err := r.ctr(ctx, "images", "import", archive); err != nil {
		return fmt.Errorf("loading the images of %s: %w", archive, err)
	}
	after, err := r.list(ctx)
	if err != nil {
		return err
	}
	// Others may have names that kubelet never sees.
	loaded := slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) })
	// The CRI plugin learns of them by events.
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, visible, true, func(ctx context.Context) (bool, error) {
		seen, err := r.Names(ctx)
		return containsAll(seen, loaded), err
	})
	if err != nil {
		return fmt.Errorf("waiting until kubelet can use the images %v of %s: %w", loaded, archive, err)
	}
	return nil
}

// list returns the names of all images that containerd has.
func (r *Runtime) list(ctx context.Context) ([]string, error) {
	names, err := r.ctr(ctx, "images", "list", "--quiet")
	if err != nil {
		return nil, fmt.Errorf("listing the images that containerd has: %w", err)
	}
	return strings.Fields(names), nil
}

// containsAll ignores names that are only the id of an image.
func containsAll(names, wanted []string) bool {
	for _, name := range wanted {
		if !strings.HasPrefix(name, "sha256:") && !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

// ctr runs the command line of containerd and returns what it prints.
func (r *Runtime) ctr(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address", r.socket, "--namespace", "k8s.io"}, args...)...)
	cmd.Dir = filepath.Clean(r.folder.Name())
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return string(out), err
}
