// Package callpath implements the call path: the steps that every call goes through, and [New],
// which puts them in order. A step is a [toolyard.Policy]. It works on a parsed call whose tool is
// already resolved, never on raw bytes.
//
//	record → recover → limit-args → inject → validate → policies → rules → admit → limit-result → intend → run
//
// The steps are:
//
//   - record reports every call to the recorders, including refused ones.
//   - recover turns a panic into the failure of one call.
//   - limit-args limits the size of the arguments.
//   - inject adds context to the arguments.
//   - validate applies defaults and checks the arguments.
//   - policies runs the embedding program's policies.
//   - rules applies the operator's rules, which deny calls or require approval.
//   - admit reserves limits, money and the idempotency key, all or none, and settles the call
//     after it ends.
//   - limit-result limits the size of the result. Text over the limit is truncated; a result that
//     cannot be truncated fails and is not charged.
//   - intend records a write before it runs.
//   - run calls the tool within its deadline.
package callpath
