package yard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/record"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// contract is what enforces what tools declare: the store, the desk that admits calls, and
// the record of them.
type contract struct {
	store    *store.Store // nil when nothing must be kept
	memory   inMemory     // instead of it
	desk     *admission.Desk
	record   *record.Writer     // nil as well
	verifier *identity.Verifier // nil as well
	keep     time.Duration      // how long calls are kept
	away     atomic.Bool        // the store does not answer
}

// openTime is how long the store may take to open.
const openTime = 30 * time.Second

// openContract opens the store. A configuration that asks for nothing to be kept has none but
// one in memory, for limits, which is made when the first tool has one.
func (y *Yard) openContract(c *config.Source) error {
	k := &contract{keep: c.Record.Keep.Std()}
	args := y.arguments(c.Config)
	var shared admission.Store = &k.memory
	if c.NeedsStore() {
		ctx, cancel := context.WithTimeout(context.Background(), openTime)
		defer cancel()
		s, err := y.openStore(ctx, c.StoreAddress())
		if err != nil {
			return config.Faults{c.At(toolyard.Problem{
				Subject: "store", Message: strings.TrimPrefix(err.Error(), "store: "),
				Fix: "See that the database is there and may be used, or name another: postgres://user@host/database or sqlite:path.",
			}, "store")}
		}
		shared, k.store, k.verifier = s, s, identity.NewVerifier(s, y.opts.Now)
		k.record = record.New(s, record.Options{Arguments: args, Log: y.log, OnDrop: y.metrics.Lost})
	}
	k.desk = admission.New(shared, admission.Options{
		Replica: y.id, Local: c.OnStoreDown == "local", Log: y.log, OnStore: y.onStore,
		Row: func(c *toolyard.Call, o toolyard.Outcome) *store.CallRow { return record.Row(c, o, args) },
	})
	y.contract = k
	return nil
}

// onStore is told when the store goes away and comes back.
func (y *Yard) onStore(up bool) {
	y.metrics.Store(up)
	y.contract.away.Store(!up)
}

// problems say that the store is away, and what that means.
func (k *contract) problems(c *config.Config) []toolyard.Problem {
	if !k.away.Load() {
		return nil
	}
	message := "does not answer: calls that cost something, have an idempotency key or a limit are refused"
	if c.OnStoreDown == "local" {
		message = "does not answer: calls that cost something or have an idempotency key are refused, limits are counted by each replica alone for a minute"
	}
	return []toolyard.Problem{{Subject: "store", Message: message, Fix: "See that the database runs and can be reached; nothing has to be restarted here."}}
}

// tokens are kept in the store, where all replicas see them; nil without one.
func (k *contract) tokens() mcpserver.Tokens {
	if k.store == nil {
		return nil
	}
	return k.store
}

// close closes the store.
func (k *contract) close() error {
	switch {
	case k == nil:
		return nil
	case k.store == nil:
		return k.memory.close()
	}
	return k.store.Close()
}

// run keeps the contract going until ctx ends, and closes the store.
func (k *contract) run(ctx context.Context, log *slog.Logger) {
	var wg sync.WaitGroup
	wg.Go(func() { k.desk.Run(ctx) })
	if k.store != nil {
		wg.Go(func() { k.maintain(ctx, log) })
		wg.Go(func() { k.record.Run(ctx) })
	}
	wg.Wait()
	if err := k.close(); err != nil {
		log.Warn("the store could not be closed", "error", err)
	}
}

// inMemory is a store that is made when it is needed, and ends with the process.
type inMemory struct {
	once sync.Once
	made atomic.Pointer[store.Store]
	err  error
}

// Exchange implements admission.Store.
func (m *inMemory) Exchange(ctx context.Context, b *store.Batch) (*store.Answers, error) {
	m.once.Do(func() {
		s, err := store.Open(context.WithoutCancel(ctx), "memory")
		m.made.Store(s)
		m.err = err
	})
	if m.err != nil {
		return nil, m.err
	}
	return m.made.Load().Exchange(ctx, b)
}

func (m *inMemory) close() error {
	m.once.Do(func() { m.err = errClosed })
	if s := m.made.Load(); s != nil {
		return s.Close()
	}
	return nil
}

// errClosed is what becomes of calls with limits after the end.
var errClosed = errors.New("the yard is closed")

// Sweep implements admission.Store. What has run out in memory is seen when it is asked for.
func (m *inMemory) Sweep(context.Context, int) (bool, error) { return false, nil }

// RunUse implements admission.Store.
func (m *inMemory) RunUse(ctx context.Context, scope string) (store.RunUse, error) {
	if s := m.made.Load(); s != nil {
		return s.RunUse(ctx, scope)
	}
	return store.RunUse{}, nil
}

// maintain keeps the store in order, about once in an hour.
func (k *contract) maintain(ctx context.Context, log *slog.Logger) {
	for {
		if err := k.store.Maintain(ctx, k.keep); err != nil && ctx.Err() == nil {
			log.Warn("the store was not tidied; it is tried again in an hour", "error", err)
		}
		select {
		case <-time.After(time.Hour/2 + rand.N(time.Hour)): //nolint:gosec // a pause need not be secret
		case <-ctx.Done():
			return
		}
	}
}

// recorders are those that are told of calls.
func (k *contract) recorders() []toolyard.Recorder {
	if k.record == nil {
		return nil
	}
	return []toolyard.Recorder{k.record}
}

// arguments are what is kept of arguments.
func (y *Yard) arguments(c *config.Config) record.Arguments {
	return record.Arguments{Keep: record.Keep(c.Record.Arguments), Redact: y.redact}
}

// redact hides secrets in a text.
func (y *Yard) redact(text string) string { return y.vault.Load().Redact(text) }

// maxName is how long an idempotency key and the name of a session may be.
const maxName = 255

// asks says what a call needs to be admitted.
func (s *settings) asks(c *toolyard.Call) (*admission.Request, error) {
	t := c.Tool
	a := &admission.Request{
		Of: c, Call: c.ID, Caller: c.Caller.ID, Account: cmp.Or(c.Caller.Account, c.Caller.ID, toolyard.Anonymous),
		Seller: cmp.Or(t.Server, "local"), Writes: !t.IsReadOnly(), Wait: s.Limits.Wait.Std(), Timeout: s.Limits.Timeout.Std(),
		Limits: s.paces(t),
	}
	if t.Timeout > 0 {
		a.Timeout = min(a.Timeout, t.Timeout)
	}
	paid := c.Surface == toolyard.Execute && t.Price.Set && !t.Price.OptOut
	if paid {
		a.Price = t.Price.USD
	}
	if c.Session != "" || a.Price > 0 {
		a.Balance = cmp.Or(c.Session, a.Account)
	}
	for _, name := range []string{c.IdempotencyKey, c.Session, a.Caller, a.Account} {
		if len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
			return nil, toolyard.Errorf(toolyard.Invalid, "An idempotency key and the names of a session, a caller and an account are at most %d bytes of text.", maxName)
		}
	}
	a.Caller = fmt.Sprintf("%d/%s/%s", len(a.Account), a.Account, a.Caller) // callers of two accounts may have the same name
	if c.IdempotencyKey == "" {
		return a, nil
	}
	if !c.Caller.Authenticated() {
		return nil, toolyard.Errorf(toolyard.Unauthenticated, "An idempotency key needs an authenticated caller: results are kept for each caller apart. Send an API key, or leave the idempotency key out.")
	}
	a.Scope, a.Key = a.Caller, c.IdempotencyKey
	a.Digest = digest(c)
	return a, nil
}

// paces are the limits that a tool counts for, the widest first.
func (s *settings) paces(t *toolyard.Tool) (paces []admission.LimitRef) {
	if server, ok := s.Servers[t.Server]; ok {
		n := server.Limits.Concurrency
		paces = append(paces, admission.LimitRef{
			Key: "at once/" + t.Server, Name: "The server " + t.Server, Local: true, Limit: toolyard.Limit{Concurrency: n},
		})
		if limit := server.Rate.Limit(); limit.Limited() {
			paces = append(paces, admission.LimitRef{Key: "server/" + t.Server, Name: "the server " + t.Server, Limit: limit})
		}
	}
	if t.Limit.Limited() {
		paces = append(paces, admission.LimitRef{Key: toolPace(t), Name: "the tool " + t.Name, Limit: t.Limit})
	}
	return paces
}

// toolPace is the key of the limit of a tool.
func toolPace(t *toolyard.Tool) string { return "tool/" + t.Server + "/" + t.Name }

// digest identifies what is called with which arguments of the caller. What the platform
// puts in changes from call to call, and does not count.
func digest(c *toolyard.Call) [sha256.Size]byte {
	args := c.CallerArgs()
	canonical, err := pin.Canonical(args)
	if err != nil {
		canonical = args // then only the same bytes are the same
	}
	return sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%s", c.Gate, c.Tool.Server, c.Tool.Name, canonical))
}
