package agent

import (
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
)

const (
	minOutput    = 512 // minimum number of output tokens for which a turn is worth its input
	bytesPerUnit = 3   // lower bound of bytes per token, so that estimates are too high, not too low
)

// limit returns the limit that has been reached, if any, and whether another turn is possible at
// all. After a limit is reached, one last turn may follow.
func (c *conversation) limit() (stop Stop, possible bool) {
	l, estimate := &c.root.opts.Limits, c.estimate()
	input, output := l.InputTokens-c.usage.Input, l.OutputTokens-c.usage.Output
	price, left := c.price(model.Usage{Input: estimate, Output: minOutput}), l.USD-c.cost
	elapsed := c.root.opts.Now().Sub(c.start)
	switch {
	case len(c.turns) >= l.Turns:
		return StopTurns, false
	case output < minOutput || (len(c.turns) > 0 && input < estimate):
		return StopTokens, false
	case l.USD > 0 && left < price:
		return StopMoney, false
	case c.stop != "":
		return c.stop, true
	case len(c.turns) == l.Turns-1:
		return StopTurns, true
	case elapsed*5 >= l.Time*4:
		return StopTime, true
	case output < 2*minOutput || input < 2*estimate:
		return StopTokens, true
	case l.USD > 0 && left < 2*price:
		return StopMoney, true
	}
	return "", true
}

// estimate returns an upper bound for the next turn's input tokens.
func (c *conversation) estimate() int64 {
	size := len(c.system) + len(lastTurn)
	for _, f := range c.offer.functions {
		size += len(f.Name) + len(f.Description) + len(f.Parameters)
	}
	for i := range c.messages {
		size += messageSize(&c.messages[i])
	}
	return int64(size/bytesPerUnit) + 1
}

func messageSize(m *model.Message) int {
	size := len(m.Text) + 32
	if t := m.Turn; t != nil {
		size += max(len(t.Raw), len(t.Text))
	}
	for i := range m.Answers {
		size += len(m.Answers[i].Text)
	}
	return size
}

// trim removes the oldest results from the conversation if fewer than three more turns of the
// current size would fit. It keeps the last turn's results.
func (c *conversation) trim() {
	excess := 3*c.estimate() - (c.root.opts.Limits.InputTokens - c.usage.Input)
	for i := 0; i < len(c.messages)-1 && excess > 0; i++ {
		answers := slices.Clone(c.messages[i].Answers)
		for j := range answers {
			short := c.shortened[i][j]
			if saved := len(answers[j].Text) - len(short); saved > 0 && excess > 0 {
				answers[j].Text = short
				excess -= 3 * int64(saved/bytesPerUnit)
			}
		}
		c.messages[i].Answers = answers
	}
}

func addUsage(sum *model.Usage, u model.Usage) {
	sum.Input += u.Input
	sum.Cached += u.Cached
	sum.CacheWrite += u.CacheWrite
	sum.Output += u.Output
	sum.Reasoning += u.Reasoning
	sum.Estimated = sum.Estimated || u.Estimated
}

// affordable returns how many output tokens the next turn may use.
func (c *conversation) affordable() int {
	l, m := &c.root.opts.Limits, &c.agent.opts.Model
	most := min(int64(c.maxOutput), l.OutputTokens-c.usage.Output)
	if l.USD > 0 && m.OutputUSD > 0 {
		left := l.USD - c.cost - c.price(model.Usage{Input: c.estimate()})
		most = min(most, int64(left)*million/int64(m.OutputUSD))
	}
	return int(max(most, 1))
}

const million = 1_000_000

// price returns the cost of the tokens, rounded up.
func (c *conversation) price(u model.Usage) toolyard.Money {
	m := &c.agent.opts.Model
	cached := min(u.Cached, u.Input)
	nano := (u.Input-cached)*int64(m.InputUSD) + cached*int64(m.CachedUSD) + u.Output*int64(m.OutputUSD)
	return toolyard.Money((nano + million - 1) / million)
}
