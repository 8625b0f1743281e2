package supervise

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStopEndsTheLatestFirstAndWaitsForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []string
		g := New(func(err error) { t.Errorf("unexpected end: %v", err) })
		for _, name := range []string{"etcd", "kube-apiserver", "kube-scheduler"} {
			g.Go(t.Context(), name, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				ended = append(ended, name)
				return ctx.Err()
			})
		}
		start := time.Now()
		if err := g.Stop(time.Minute); err != nil {
			t.Error(err)
		}
		if want := []string{"kube-scheduler", "kube-apiserver", "etcd"}; !slices.Equal(ended, want) {
			t.Errorf("ended in order %v, want %v", ended, want)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v: the parts were not stopped one after the other", took)
		}
	})
}

func TestOnePartCanBeStoppedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(func(err error) { t.Errorf("unexpected end: %v", err) })
		var ended []string
		for _, name := range []string{"etcd", "node"} {
			g.Go(t.Context(), name, func(ctx context.Context) error {
				<-ctx.Done()
				ended = append(ended, name)
				return nil
			})
		}
		if err := g.StopOnly("node", time.Second); err != nil {
			t.Error(err)
		}
		if err := g.StopOnly("absent", time.Second); err != nil {
			t.Error(err)
		}
		if want := []string{"node"}; !slices.Equal(ended, want) {
			t.Errorf("ended: %v, want %v", ended, want)
		}
		if err := g.Stop(time.Second); err != nil {
			t.Error(err)
		}
	})
}

func TestCancellingTheCallersContextEndsNoPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g := New(func(err error) { t.Errorf("unexpected end: %v", err) })
		running := true
		g.Go(ctx, "etcd", func(ctx context.Context) error {
			<-ctx.Done()
			running = false
			return nil
		})
		cancel()
		synctest.Wait()
		if !running {
			t.Error("the part ended with its caller's context")
		}
		if err := g.Stop(time.Second); err != nil {
			t.Error(err)
		}
	})
}

func TestAPartThatEndsByItselfIsNamed(t *testing.T) {
	refused := errors.New("connection refused")
	for name, returned := range map[string]error{"with an error": refused, "without one": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got error
				g := New(func(err error) { got = err })
				g.Go(t.Context(), "kube-scheduler", func(context.Context) error { return returned })
				synctest.Wait()
				if got == nil || !strings.HasPrefix(got.Error(), "kube-scheduler: ") {
					t.Fatalf("got %v, want an error that names kube-scheduler", got)
				}
				if returned != nil && !errors.Is(got, returned) {
					t.Errorf("got %v, want it to wrap %v", got, returned)
				}
				if err := g.Stop(time.Second); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestStopNamesWhatHangsAndReturnsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		g := New(func(error) {})
		g.Go(t.Context(), "etcd", func(ctx context.Context) error { <-ctx.Done(); return nil })
		g.Go(t.Context(), "kube-apiserver", func(context.Context) error { <-release; return nil })
		start := time.Now()
		err := g.Stop(5 * time.Second)
		if err == nil || !strings.Contains(err.Error(), "kube-apiserver did not end within 5s") {
			t.Errorf("got error %v, want one that names kube-apiserver", err)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %v, want 5s", took)
		}
	})
}
