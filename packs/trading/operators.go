package trading

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/account"
)

// descriptions describe the operator actions.
var descriptions = map[string]string{
	"pause":      "Stop accepting orders until you run resume. Positions and open orders are not changed.",
	"resume":     "Accept orders again after pause or reduce.",
	"reduce":     "Accept only orders that reduce positions, until you run resume.",
	"flatten":    "Cancel all open orders and close all positions at the market price. You can run this in any state.",
	"kill":       "Stop accepting orders until you run clear-halt, and cancel all open orders. Positions are not changed.",
	"clear-halt": "Accept orders again after kill or after a rule halted the account.",
}

// Actions returns the operator actions. Models cannot call them, because an account's state must
// not depend on the wording of a message.
func (src *Source) Actions() []*toolyard.Tool {
	type args struct {
		Account string `json:"account" minLength:"1" doc:"Name of the account."`
		Reason  string `json:"reason" minLength:"3" maxLength:"500" doc:"Why you run this action. It is recorded and shown in get_command_history."`
	}
	type result struct {
		Account string `json:"account"`
		Effect  string `json:"effect"`
	}
	tools := make([]*toolyard.Tool, 0, len(account.Commands)+1)
	for _, command := range account.Commands {
		tools = append(tools, toolyard.Define(toolyard.Spec{
			Name: command, Category: execution, Effects: "write", Description: descriptions[command], Origin: "packs/trading",
		}, func(ctx context.Context, c *toolyard.Call, in args) (*result, error) {
			a, err := src.account(in.Account)
			if err != nil {
				return nil, err
			}
			order, err := src.instruction(ctx, a, command)
			if err != nil {
				return nil, err
			}
			order.By, order.Reason = c.Caller.ID, in.Reason
			effect, err := a.Command(ctx, order)
			return &result{in.Account, effect}, err
		}))
	}
	return append(tools, src.reset())
}

func (src *Source) account(name string) (*tradedAccount, error) {
	a, ok := src.accounts[name]
	if !ok {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown account %q. Accounts: %s.", name, strings.Join(slices.Sorted(maps.Keys(src.accounts)), ", "))
	}
	return a, nil
}

// instruction returns a command for the current time, or for a simulated account's own time.
func (src *Source) instruction(ctx context.Context, a *tradedAccount, command string) (account.Instruction, error) {
	src.mu.Lock()
	simulated := src.simulated[a.Name] != ""
	src.mu.Unlock()
	in := account.Instruction{Command: command, At: src.setup.Now(), Broker: a.broker}
	if !simulated {
		return in, nil
	}
	in.Broker = a.simulator
	last, err := a.LastTime(ctx)
	if !last.IsZero() {
		in.At = last
	}
	return in, err
}

func (src *Source) reset() *toolyard.Tool {
	type args struct {
		Account string    `json:"account" minLength:"1" doc:"Name of the paper account."`
		From    time.Time `json:"from" doc:"Time at which the account starts over."`
	}
	return toolyard.Define(toolyard.Spec{
		Name: "reset", Category: execution, Effects: "write", Origin: "packs/trading",
		Description: "Reset a paper account to its initial deposit, starting at the given time. Earlier decisions are no longer shown.",
	}, func(ctx context.Context, _ *toolyard.Call, in args) (string, error) {
		a, err := src.account(in.Account)
		if err != nil {
			return "", err
		}
		if a.paper == nil {
			return "", toolyard.Errorf(toolyard.Invalid, "Account %s is live: only paper accounts can be reset.", in.Account)
		}
		if err := a.paper.Reset(ctx, in.From); err != nil {
			return "", err
		}
		if err := a.Reset(ctx, in.From); err != nil {
			return "", err
		}
		return fmt.Sprintf("Account %s restarts at %s.", in.Account, in.From.Format(time.RFC3339)), nil
	})
}
