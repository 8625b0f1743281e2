// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

// Options of a Client. The zero value has the defaults.
type Options struct {
	// AnswerMemory bounds the memory that all answers in flight take together, in bytes, from the first byte of a body until what follows
	// from it is done. One answer may take half of it. Default DefaultAnswerMemory.
	AnswerMemory int64
	// MaxBody bounds a body, in bytes after decompression. Default one sixteenth of AnswerMemory. All answers that are kept for their ETags
	// together take twice that at most.
	MaxBody int64
	// PerHost is how many calls may be under way to one host, and WaitingPerHost how many more wait for one to end; those that come
	// then wait a moment only. Half of the calls are divided evenly among the owners of the hooks of a host. A caller with a fixed number of workers
	// has more than both together, so that no host holds all of them. Default 32 and 16.
	PerHost, WaitingPerHost int
}

// DefaultAnswerMemory is the default of [Options.AnswerMemory].
const DefaultAnswerMemory = 256 << 20

// Client has what all hooks of a process share.
type Client struct {
	maxBody    int64
	budget     *budget
	kept       atomic.Int64 // room for answers that are kept for their ETags
	transports transports
	hosts      hosts
}

// NewClient returns a Client. It holds no resources while it has no hooks.
func NewClient(options Options) *Client {
	if options.AnswerMemory <= 0 {
		options.AnswerMemory = DefaultAnswerMemory
	}
	if options.MaxBody <= 0 {
		options.MaxBody = options.AnswerMemory / 16
	}
	if options.PerHost <= 0 {
		options.PerHost = 32
	}
	if options.WaitingPerHost <= 0 {
		options.WaitingPerHost = 16
	}
	client := &Client{
		maxBody:    options.MaxBody,
		budget:     newBudget(options.AnswerMemory),
		transports: transports{idlePerHost: options.PerHost, known: map[identity]*transport{}},
		hosts:      hosts{perHost: options.PerHost, waiting: options.WaitingPerHost, known: map[string]*host{}},
	}
	client.kept.Store(2 * options.MaxBody)
	return client
}

// Hook is one hook of one controller. It is safe for concurrent use.
type Hook struct {
	client     *Client
	phase      string
	version    Version
	strict     bool
	url        *url.URL
	timeout    time.Duration
	access     Access
	source     Source
	instrument func(http.RoundTripper) http.RoundTripper
	tenant     *tenant
	breaker    breaker
	etags      *etagCache // nil where it is not enabled

	mu     sync.Mutex
	closed bool
	last   material
	link   *link // nil before the first call
}

// link is the transport and headers of calls while the credentials are the same.
type link struct {
	transport *transport
	client    *http.Client
	header    string
}

// NewHook returns a Hook. Its errors have ReasonInvalidConfiguration. Secrets are not read before the first call.
func (c *Client) NewHook(ctx context.Context, config Config) (*Hook, error) {
	hook, err := newHook(c, &config)
	if err != nil {
		return nil, newError(ReasonInvalidConfiguration, "%s hook: %w", config.Phase, err)
	}
	if config.Timeout != nil && *config.Timeout <= 0 {
		klog.FromContext(ctx).Info("Invalid client config: timeout must be a non-zero positive duration. Defaulting to 10 seconds", "hook", config.Phase)
	}
	hook.tenant = c.hosts.join(hook.url, config.Owner)
	return hook, nil
}

func newHook(c *Client, config *Config) (*Hook, error) {
	address, err := config.address()
	if err != nil {
		return nil, err
	}
	version, err := config.version()
	if err != nil {
		return nil, err
	}
	strict, err := config.strict(version)
	if err != nil {
		return nil, err
	}
	access := accessFor(address, config.Access, config.Endpoints)
	if err := access.validate(); err != nil {
		return nil, err
	}
	hook := &Hook{client: c, phase: config.Phase, version: version, strict: strict, url: address, timeout: DefaultTimeout,
		access: access, source: config.Source, instrument: config.Instrument}
	if config.Timeout != nil && *config.Timeout > 0 {
		hook.timeout = *config.Timeout
	}
	if config.ETag != nil {
		hook.etags = newETagCache(*config.ETag, &c.kept)
	}
	return hook, nil
}

// Version is that of the protocol.
func (h *Hook) Version() Version { return h.version }

// URL returns the address of the hook as messages and metrics have it: without what may be a secret in it, credentials and the query.
func (h *Hook) URL() string { return shown(h.url) }

// Access returns how the hook and its caller authenticate each other: the hook's own access, or that of the endpoint of its host.
func (h *Hook) Access() Access { return h.access }

// Forget drops the stored answer for a key that is gone.
func (h *Hook) Forget(key string) {
	if h.etags != nil {
		h.etags.forget(key)
	}
}

// Close releases what the hook holds. Running calls continue; later calls fail.
func (h *Hook) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	if h.link != nil {
		h.client.transports.release(h.link.transport)
	}
	if h.etags != nil {
		h.etags.close()
	}
	h.client.hosts.leave(h.tenant)
}

// connect returns the link with the current credentials. Its transport must be released.
func (h *Hook) connect() (*link, error) {
	now, err := h.access.read(h.source)
	if err != nil {
		return nil, newError(ReasonCredentials, "%s hook %s: %w", h.phase, h.URL(), err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, newError(ReasonInvalidConfiguration, "%s hook %s: the controller of the hook has gone", h.phase, h.URL())
	}
	if h.link == nil || !now.equal(h.last) {
		transport, err := h.client.transports.acquire(now)
		if err != nil {
			return nil, newError(ReasonCredentials, "%s hook %s: %w", h.phase, h.URL(), err)
		}
		if h.link != nil {
			h.client.transports.release(h.link.transport)
			h.breaker.reset()
		}
		h.last, h.link = now, h.newLink(transport, now.header)
	}
	h.client.transports.retain(h.link.transport)
	return h.link, nil
}

func (h *Hook) newLink(transport *transport, header string) *link {
	var sender http.RoundTripper = transport.Transport
	if h.instrument != nil {
		sender = h.instrument(sender)
	}
	return &link{transport: transport, header: header, client: &http.Client{Transport: redirector{sender, h}}}
}
