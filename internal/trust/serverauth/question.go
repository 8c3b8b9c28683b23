package serverauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
)

const (
	questionKey   = "toolyard.signin"
	questionState = "toolyard.signin:" // followed by the number of questions so far
	maxQuestions  = 3                  // per call
	maxAwait      = time.Minute        // longest wait for a person who is signing in
	awaitMargin   = 2 * time.Second    // time reserved for the call itself
	awaitPoll     = 300 * time.Millisecond
)

// linkTime is the lifetime of a link and the time limit for a sign-in.
const linkTime = 10 * time.Minute

// ticketFragment precedes the ticket in a link. Browsers do not send a URL's fragment.
const ticketFragment = "#ticket="

// link is the sealed data in the URL of a connect page. It is not a credential, because only its
// owner can use it.
type link struct {
	Owner  Owner    `json:"owner"`
	Scopes []string `json:"scopes,omitempty"` // scopes to request; nil for those that the server requires
}

// Link returns the URL of the page on which a person connects to the server. It is valid for ten
// minutes and can be used for one sign-in.
func (p *Person) Link(caller toolyard.Caller) (string, error) {
	owner, ok := OwnerOf(caller)
	if !ok {
		return "", errNoConnection
	}
	return p.link(owner, nil)
}

func (p *Person) link(owner Owner, scopes []string) (string, error) {
	keys, err := p.Keys()
	if err != nil {
		return "", p.unavailable(err)
	}
	raw, err := json.Marshal(link{owner, scopes})
	if err != nil {
		return "", err
	}
	ticket := keys.seal(sealLink, string(raw), p.Now().Add(linkTime), p.server.ID)
	return p.URL + PagePath + url.PathEscape(p.server.ID) + ticketFragment + ticket, nil
}

// question is an error that asks the person to sign in. It becomes an unfinished result.
type question struct{ result *toolyard.Result }

func (*question) Error() string { return "the user must sign in" }

// Unfinished returns the result that asks the person to sign in.
func (q *question) Unfinished() *toolyard.Result { return q.result }

// signInRequired asks the person to sign in. If the client can open pages, it uses a question;
// otherwise, it uses an error that contains the link.
func (p *Person) signInRequired(c *toolyard.Call, owner Owner, scopes []string, asked int) error {
	what := "sign in to"
	switch {
	case p.header != "":
		what = "enter a key for"
	case scopes != nil:
		what = "grant more permissions at"
	}
	if p.URL == "" {
		return toolyard.Errorf(SignInRequired, "The user must first %s server %s by running this command on the computer that runs %s: toolyard connect %s", what, p.server.ID, p.Name, p.server.ID)
	}
	address, err := p.link(owner, scopes)
	if err != nil {
		return err
	}
	if asked < maxQuestions && c.Depth == 0 && c.RequestState == "" && c.Supports("elicitation.url") {
		return newQuestion(fmt.Sprintf("To call %s, %s server %s.", c.Tool.Name, what, p.server.ID), address, asked+1)
	}
	_, ticket, _ := strings.Cut(address, ticketFragment)
	return &toolyard.Error{Code: SignInRequired, Secret: ticket, Message: fmt.Sprintf("The user must first %s server %s. Show the user this link, which works only for this user, then repeat the call: %s", what, p.server.ID, address)}
}

func newQuestion(message, address string, number int) error {
	raw, err := json.Marshal(map[string]any{
		"resultType": "input_required", "requestState": round(number),
		"inputRequests": map[string]any{questionKey: map[string]any{
			"method": "elicitation/create", "params": map[string]any{"mode": "url", "message": message, "url": address},
		}},
	})
	if err != nil {
		return err
	}
	q := &question{&toolyard.Result{}}
	if err := q.result.UnmarshalJSON(raw); err != nil {
		return err
	}
	return q
}

// takeAnswer removes the answer to the sign-in question from a call, and returns how many questions
// were asked. Agreeing to open the page does not mean that the person has signed in.
func (p *Person) takeAnswer(c *toolyard.Call) (asked int, err error) {
	number, ours := strings.CutPrefix(c.RequestState, questionState)
	if !ours {
		return 0, nil
	}
	if asked, err = strconv.Atoi(number); err != nil {
		return 0, err
	}
	var answers map[string]struct {
		Action string `json:"action"`
	}
	_ = json.Unmarshal(c.InputResponses, &answers) // if there is no answer, the person is asked again
	c.RequestState, c.InputResponses = "", nil
	switch answers[questionKey].Action {
	case "decline", "cancel":
		return 0, toolyard.Errorf(toolyard.PermissionDenied, "The user declined to sign in to server %s. Do not repeat the call unless the user asks you to.", p.server.ID)
	}
	return asked, nil
}

// await waits until the person has connected, for most of the call's remaining time.
func (p *Person) await(ctx context.Context, owner Owner) (*grant, error) {
	until := time.Now().Add(maxAwait)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-awaitMargin).Before(until) {
		until = deadline.Add(-awaitMargin)
	}
	for {
		g, err := p.usable(ctx, owner)
		if !errors.Is(err, errNotConnected) || !time.Now().Before(until) {
			return g, err
		}
		select {
		case <-time.After(awaitPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
