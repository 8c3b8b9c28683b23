package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/accesstoken"
	"github.com/toolyard/toolyard/internal/trust/seal"
	"github.com/toolyard/toolyard/internal/trust/signin"
)

// Issuers identifies people through the configured issuers.
type Issuers interface {
	SignInNames() []string // issuers that people can sign in with
	URL() string           // the server's public URL
	BeginSignIn(ctx context.Context, issuer string) (*signin.Flow, error)
	CompleteSignIn(context.Context, *signin.Flow, signin.Response) (*accesstoken.Person, error)
	// SignOut deletes tokens that were stored when a person signed in.
	SignOut(context.Context, toolyard.Caller) error
	// CallerOf returns the caller for a person, according to the current rules. The error is
	// PermissionDenied if no rule matches or the person is blocked.
	CallerOf(context.Context, *accesstoken.Person) (toolyard.Caller, error)
	States() []IssuerItem
	// RightsOf returns the rights that an issuer's rules grant to members of the given groups.
	RightsOf(issuer string, groups []string) accesstoken.Rights
	// CheckClaims returns the rights of a token with the given claims.
	CheckClaims(ctx context.Context, claims json.RawMessage) ClaimsCheck
}

const (
	flowCookie = "toolyard-signin"
	flowTime   = 10 * time.Minute // time limit for signing in at the issuer
	maxCookie  = 3800             // bytes per value; browsers accept 4096 including the name and attributes
)

// personSignIn signs people in through issuers. A sign-in in progress is not stored on the server:
// the browser keeps it in a sealed cookie that is bound to a secret in the storage of the console's
// origin. The issuer redirects the browser to a console page, which sends the response to the
// server in a separate request. As a result, requests from other sites have no effect and never
// include the cookie.
type personSignIn struct {
	*signInHandler
	used usedFlows
	log  *slog.Logger
}

func newPersonSignIn(h *signInHandler, opts Options) *personSignIn {
	return &personSignIn{signInHandler: h, log: opts.Log}
}

// begunSignIn is the response to the start of a sign-in.
type begunSignIn struct {
	Address string `json:"address" doc:"URL at which the person signs in. Open it in the same browser."`
	Secret  string `json:"secret" doc:"Keep it in the page's storage, and send it with the issuer's response."`
}

// signInResponse is an issuer's response as received by the browser.
type signInResponse struct {
	Issuer string `json:"issuer" minLength:"1" maxLength:"64" doc:"Name of the issuer, from the path of the redirect URI."`
	Secret string `json:"secret" maxLength:"128" doc:"The secret that was returned when the sign-in began."`
	State  string `json:"state" maxLength:"128"`
	Code   string `json:"code,omitempty" maxLength:"4096"`
	Iss    string `json:"iss,omitempty" maxLength:"1024" doc:"The iss parameter (RFC 9207)."`
	Error  string `json:"error,omitempty" maxLength:"128"`
}

var errNoIssuers = notFound("No issuer is configured for the console. Sign in with an API key.")

func (h *personSignIn) begin(r *request) (*reply, error) {
	if h.auth.issuers == nil {
		return nil, errNoIssuers
	}
	flow, err := h.auth.issuers.BeginSignIn(r.Context(), r.PathValue("issuer"))
	if err != nil {
		return nil, err
	}
	value, err := json.Marshal(flow)
	if err != nil {
		return nil, err
	}
	secret := rand.Text()
	setCookie(r, flowCookie, h.auth.seal().flow.Seal(string(value), []byte(secret), h.now().Add(flowTime)), flowTime)
	return &reply{body: begunSignIn{flow.Address, secret}}, nil
}

func (h *personSignIn) complete(r *request) (*reply, error) {
	if h.auth.issuers == nil {
		return nil, errNoIssuers
	}
	body, err := read[signInResponse](r, smallBody)
	if err != nil {
		return nil, err
	}
	flow, err := h.takeFlow(r, &body)
	if err != nil {
		return nil, err
	}
	p, err := h.auth.issuers.CompleteSignIn(r.Context(), flow, signin.Response{Code: body.Code, State: body.State, Issuer: body.Iss, Error: body.Error})
	if err != nil {
		return nil, err
	}
	c, err := h.auth.issuers.CallerOf(r.Context(), p)
	if err != nil {
		return nil, err
	}
	value, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	secret := rand.Text()
	sealed := h.auth.seal().person.Seal(string(value), []byte(secret), h.now().Add(signInTime))
	if len(sealed) > maxCookie {
		return nil, toolyard.Errorf(toolyard.PermissionDenied, "Too many of your groups are listed in access rules. Ask an operator to use fewer or shorter group names.")
	}
	setCookie(r, cookie, sealed, signInTime)
	h.log.InfoContext(r.Context(), "person signed in to the console", "caller", c.ID, "issuer", p.Issuer)
	me := h.me(c)
	me.Name = p.Name
	return &reply{body: signInResult{me, secret}}, nil
}

// takeFlow returns the sign-in that a response belongs to. Each sign-in can be taken only once; its
// cookie is deleted.
func (h *personSignIn) takeFlow(r *request, response *signInResponse) (*signin.Flow, error) {
	value, id, ok := h.auth.openCookie(r.Request, h.auth.seal().flow, flowCookie, response.Secret)
	if !ok {
		return nil, signin.ErrStartAgain
	}
	flow := &signin.Flow{}
	if json.Unmarshal([]byte(value), flow) != nil || flow.State != response.State || flow.Issuer != response.Issuer {
		return nil, signin.ErrStartAgain
	}
	setCookie(r, flowCookie, "", -time.Second)
	if !h.used.add(id, h.now()) {
		return nil, signin.ErrStartAgain
	}
	return flow, nil
}

// maxUsedFlows is the maximum number of remembered sign-ins.
const maxUsedFlows = 10_000

// usedFlows remembers the sign-ins completed on this replica, so that none is completed twice. In
// any case, the issuer accepts each code only once.
type usedFlows struct {
	mu   sync.Mutex
	used map[seal.Nonce]time.Time // maps a sign-in to its expiry
}

// add reports whether a sign-in has not been used before.
func (u *usedFlows) add(id seal.Nonce, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.used[id]; ok {
		return false
	}
	if len(u.used) >= maxUsedFlows {
		for other, until := range u.used {
			if !now.Before(until) {
				delete(u.used, other)
			}
		}
		for other := range u.used { // deletes arbitrary entries
			if len(u.used) < maxUsedFlows {
				break
			}
			delete(u.used, other)
		}
	}
	if u.used == nil {
		u.used = make(map[seal.Nonce]time.Time)
	}
	u.used[id] = now.Add(flowTime)
	return true
}

func (h *personSignIn) routes() []route {
	return []route{
		{
			method: "POST", path: "/signin/issuers/{issuer}", id: "beginSignIn", summary: "Start a person's sign-in with an issuer. Open the returned URL in the same browser.",
			access: open, gives: answer[begunSignIn]("BegunSignIn"), refusals: []int{401, 404, 503}, serve: h.begin,
		},
		{
			method: "POST", path: "/signin/response", id: "completeSignIn", summary: "Complete a sign-in with the issuer's response. Subsequent requests send the cookie and the page secret from the response.",
			access: open, takes: body[signInResponse]("SignInResponse"), gives: answer[signInResult]("SignedIn"), refusals: []int{400, 401, 403, 404, 413, 503}, serve: h.complete,
		},
	}
}
