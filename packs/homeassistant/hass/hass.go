// Package hass is a client for Home Assistant. It holds one WebSocket connection and mirrors the
// home's states and registries in memory, so that reading them needs no requests.
//
//	client, err := hass.New(hass.Config{URL: "http://192.168.1.5:8123", Token: token})
//	go client.Run(ctx)
//	snapshot, err := client.Snapshot()
package hass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures a client.
type Config struct {
	URL   string           // the home's URL, such as http://192.168.1.5:8123
	Token string           // a long-lived access token
	HTTP  *http.Client     //nolint:forbidigo // the yard's own, with its address rules
	Now   func() time.Time // defaults to time.Now
	Log   *slog.Logger     // discards everything if nil
	// Changed is called after each new snapshot with the entities whose states changed, or with
	// nil if anything may have changed. It must not block.
	Changed func(ids []string)
	// Status is called with nil when the connection is established, and with an error when it
	// fails. It must not block.
	Status func(error)
}

// Client is a connection to a home. Its methods can be called concurrently.
type Client struct {
	config Config
	base   *url.URL
	times  times

	snapshot atomic.Pointer[Snapshot]
	session  atomic.Pointer[session] // nil while disconnected
	heard    atomic.Int64            // time of the last message, in Unix nanoseconds
	loaded   chan struct{}           // closed after the first snapshot
	refused  chan struct{}           // closed when the token is refused

	mu     sync.Mutex
	status error // why there is no connection
}

// times holds the connection's durations, which tests shorten.
type times struct {
	handshake time.Duration // limit for connecting and authenticating
	ping      time.Duration // between pings
	silence   time.Duration // time with no message after which the connection counts as broken
	stale     time.Duration // maximum age of a snapshot
	minPause  time.Duration // between two attempts to connect
	maxPause  time.Duration
}

var defaultTimes = times{
	handshake: 10 * time.Second, ping: 10 * time.Second, silence: 25 * time.Second, stale: 30 * time.Second,
	minPause: 250 * time.Millisecond, maxPause: time.Minute,
}

var (
	// ErrToken means that Home Assistant refused the token. The client does not retry, because Home
	// Assistant bans addresses after failed logins.
	ErrToken = errors.New("the access token was rejected by Home Assistant")
	// ErrNotSent means that a command was not sent, because there is no connection.
	ErrNotSent = errors.New("not connected to Home Assistant")
	// ErrNoAnswer means that a command was sent, but the connection was lost before the response. The
	// command may have had an effect.
	ErrNoAnswer = errors.New("lost the connection to Home Assistant before it responded")
)

// New returns a client. It does not connect: see [Client.Run].
func New(config Config) (*Client, error) {
	base, err := url.Parse(config.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("url: %q is not an http or https URL such as http://192.168.1.5:8123", config.URL)
	}
	if config.Token == "" || strings.ContainsAny(config.Token, " \r\n") {
		return nil, errors.New("token: must be a Home Assistant user's long-lived access token")
	}
	if config.HTTP == nil {
		return nil, errors.New("HTTP is required")
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Changed == nil {
		config.Changed = func([]string) {}
	}
	if config.Status == nil {
		config.Status = func(error) {}
	}
	config.Log = cmp.Or(config.Log, slog.New(slog.DiscardHandler))
	return &Client{
		config: config, base: base.JoinPath("/"), times: defaultTimes, status: ErrNotSent,
		loaded: make(chan struct{}), refused: make(chan struct{}),
	}, nil
}

// Snapshot returns the latest snapshot and its age, which is zero while the connection works. It
// returns an error if there is no snapshot yet or the connection was lost more than 30 s ago.
func (c *Client) Snapshot() (*Snapshot, time.Duration, error) {
	snapshot := c.snapshot.Load()
	if snapshot == nil {
		return nil, 0, c.Err()
	}
	age := c.config.Now().Sub(time.Unix(0, c.heard.Load()))
	if age > c.times.stale {
		return nil, age, cmp.Or(c.Err(), ErrNotSent)
	}
	if c.session.Load() == snapshot.session {
		age = 0
	}
	return snapshot, age, nil
}

// Ready waits until there is a snapshot. It returns an error if the token is refused or ctx ends.
func (c *Client) Ready(ctx context.Context) error {
	select {
	case <-c.loaded:
		return nil
	case <-c.refused:
		return ErrToken
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Err returns the reason why there is no connection, or nil if there is one.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *Client) setErr(err error) {
	c.mu.Lock()
	c.status = err
	c.mu.Unlock()
	c.config.Status(err)
}
