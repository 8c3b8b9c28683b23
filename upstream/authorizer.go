package upstream

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/outbound"
)

// Authorizer provides the credentials for requests to an HTTP server. Its methods are called
// concurrently.
type Authorizer interface {
	// Begin is called before a call is sent. It returns the identity that the call has at the
	// server, or "" if all callers share one. Its error is returned to the caller; if the error has
	// a method Unfinished() *toolyard.Result, the caller receives that result instead. Begin may
	// remove from the call an answer that was meant for it.
	Begin(ctx context.Context, c *toolyard.Call) (identity string, err error)
	// Authorize returns headers with the credentials for a call's request. The call is nil for the
	// yard's own requests, such as listing tools. Its error is returned to the caller.
	Authorize(ctx context.Context, c *toolyard.Call) (http.Header, error)
	// Refused is called when the server refuses credentials with status 401 or 403. It reports
	// whether the request should be resent once with new credentials.
	Refused(ctx context.Context, c *toolyard.Call, sent http.Header, res *http.Response) (again bool, err error)
}

// credentialError is returned for a request that has no valid credentials. The server was not
// called, or it refused the request and did not process it.
type credentialError struct{ err error }

// Error returns the cause, for operators. Callers receive the message of the inner error.
func (e *credentialError) Error() string {
	if inner, ok := errors.AsType[*toolyard.Error](e.err); ok && inner.Err != nil {
		return inner.Err.Error()
	}
	return e.err.Error()
}

func (e *credentialError) Unwrap() error { return e.err }

// unfinished is an authorizer's error that asks the caller's user a question.
type unfinished interface {
	error
	Unfinished() *toolyard.Result
}

// begin returns the identity of a call at the server.
func (conv *conversations) begin(ctx context.Context, c *toolyard.Call) (identity string, asks *toolyard.Result, err error) {
	if conv.opts.Authorizer == nil {
		return "", nil, nil
	}
	identity, err = conv.opts.Authorizer.Begin(ctx, c)
	if q, ok := errors.AsType[unfinished](err); ok {
		return "", q.Unfinished(), nil
	}
	return identity, nil, err
}

// do sends a call's request with its credentials. The call is nil for the session's own requests.
func (l *httpLink) do(req *http.Request, c *toolyard.Call, limit outbound.Limits) (*http.Response, error) {
	if l.authorizer == nil {
		return l.send(req, limit)
	}
	if c == nil {
		c = l.owner
	}
	for attempt := 0; ; attempt++ {
		credentials, err := l.authorizer.Authorize(req.Context(), c)
		if err != nil {
			return nil, &credentialError{err}
		}
		maps.Copy(req.Header, credentials)
		res, err := l.send(req, limit)
		if err != nil || attempt > 0 || res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
			return res, err
		}
		again, err := l.authorizer.Refused(req.Context(), c, credentials, res)
		if err == nil && !again {
			return res, nil
		}
		_ = res.Body.Close()
		if err != nil {
			return nil, &credentialError{err}
		}
		req = req.Clone(req.Context())
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

func (l *httpLink) send(req *http.Request, limit outbound.Limits) (*http.Response, error) {
	res, err := l.client.Do(req, limit)
	if err != nil {
		if req.Context().Err() != nil {
			return nil, req.Context().Err()
		}
		return nil, &unreachableError{err}
	}
	return res, nil
}
