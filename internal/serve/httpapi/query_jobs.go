package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/store"
)

// jobResult is a query that runs in the background.
type jobResult struct {
	ID          string          `json:"jobId"`
	Status      string          `json:"status" enum:"running,completed,failed"`
	Result      json.RawMessage `json:"result,omitempty" doc:"The response to the query, once it is completed."`
	Error       *string         `json:"error,omitempty" doc:"Why the query failed."`
	Code        toolyard.Code   `json:"code,omitempty" doc:"Error code of a failed query."`
	CreatedAt   time.Time       `json:"createdAt"`
	UpdatedAt   time.Time       `json:"updatedAt"`
	CompletedAt *time.Time      `json:"completedAt,omitempty"`
}

// jobOutcome is the stored outcome of a failed job.
type jobOutcome struct {
	Error string        `json:"error"`
	Code  toolyard.Code `json:"code"`
}

var errNoJobs = notFound("Queries are not available because no store is configured.")

// start starts a query in the background. Requests with the same idempotency key return the same
// job.
func (h *queryHandler) start(r *request) (*reply, error) {
	if h.opts.Store == nil {
		return nil, errNoJobs
	}
	body, call, err := h.prepare(r)
	if err != nil {
		return nil, err
	}
	now := h.now()
	digest := sha256.Sum256(slices.Concat([]byte(call.Gate+"\n"+call.Tool+"\n"+call.Session+"\n"), call.Args))
	job := &store.QueryJob{
		ID: rand.Text(), Account: jobAccount(r.caller), Caller: r.caller.ID, Digest: hex.EncodeToString(digest[:]), At: now, Until: now.Add(h.opts.Time(body.Agent) + jobGrace), State: store.JobRunning,
	}
	job.Key = cmp.Or(call.IdempotencyKey, job.ID)
	if !h.acquire(job) {
		return nil, &toolyard.Error{Code: toolyard.RateLimited, Message: "Too many queries are running in the background. Try again later.", RetryAfter: keepalive}
	}
	existing, err := h.opts.Store.BeginJob(r.Context(), job)
	if err != nil || existing != nil {
		h.release(job)
		if err != nil {
			return nil, err
		}
		return &reply{status: http.StatusAccepted, body: h.jobResult(existing), location: prefix + "/query/jobs/" + existing.ID}, nil
	}
	if r.caller.Authenticated() {
		call.IdempotencyKey = job.Key // the key makes the query run only once and finish even if this replica is about to stop
	}
	go h.runJob(context.WithoutCancel(r.Context()), job, body, call)
	return &reply{status: http.StatusAccepted, body: h.jobResult(job), location: prefix + "/query/jobs/" + job.ID}, nil
}

func jobAccount(c toolyard.Caller) string { return cmp.Or(c.Account, c.ID) }

func (h *queryHandler) acquire(j *store.QueryJob) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, own := 0, j.Account+"\x00"+j.Caller
	for _, n := range h.jobs {
		all += n
	}
	if all >= maxJobs || h.jobs[own] >= maxCallerJobs {
		return false
	}
	h.jobs[own]++
	return true
}

func (h *queryHandler) release(j *store.QueryJob) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := j.Account + "\x00" + j.Caller
	if h.jobs[own]--; h.jobs[own] == 0 {
		delete(h.jobs, own)
	}
}

// runJob runs a query and stores its outcome.
func (h *queryHandler) runJob(ctx context.Context, job *store.QueryJob, body *queryBody, call *serve.CallRequest) {
	defer h.release(job)
	ctx, cancel := context.WithDeadline(ctx, job.Until)
	defer cancel()
	res, err := h.run(ctx, body, call)
	state, outcome := store.JobCompleted, any(res)
	if err != nil {
		e := problemOf(err)
		state, outcome = store.JobFailed, jobOutcome{e.Message, e.Code}
	}
	raw, err := jsonobject.Marshal(outcome)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
		defer cancel()
		err = h.opts.Store.EndJob(ctx, job.ID, state, raw, h.now())
	}
	if err != nil {
		h.calls.log.ErrorContext(ctx, "could not store the outcome of a query", "job", job.ID, "error", err)
	}
}

// job returns the state of a job.
func (h *queryHandler) job(r *request) (*reply, error) {
	if h.opts.Store == nil {
		return nil, errNoJobs
	}
	job, err := h.opts.Store.Job(r.Context(), jobAccount(r.caller), r.caller.ID, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return &reply{body: h.jobResult(job)}, nil
}

func (h *queryHandler) jobResult(j *store.QueryJob) *jobResult {
	res := &jobResult{ID: j.ID, Status: string(j.State), CreatedAt: j.At.UTC(), UpdatedAt: j.At.UTC()}
	if !j.Ended.IsZero() {
		res.UpdatedAt, res.CompletedAt = j.Ended, &j.Ended
	}
	switch {
	case j.State == store.JobCompleted:
		res.Result = j.Body
	case j.State == store.JobFailed:
		var outcome jobOutcome
		_ = json.Unmarshal(j.Body, &outcome) // cannot fail: runJob wrote it
		res.Error, res.Code = &outcome.Error, outcome.Code
	case h.now().After(j.Until):
		lost := "The replica that ran the query has stopped, so the outcome is unknown."
		res.Status, res.Error, res.Code = string(store.JobFailed), &lost, toolyard.OutcomeUnknown
	}
	return res
}
