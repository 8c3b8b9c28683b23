package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
)

// AgentSection configures agents and the models that they use.
type AgentSection struct {
	Models map[string]Model `json:"models,omitempty" doc:"Language models for agents, by name."`
	Agents map[string]Agent `json:"agents,omitempty" doc:"Agents, by name. Gates that list the agent x under agents offer it as the tool ask_x."`
}

// Model is a language model behind an HTTP API.
type Model struct {
	API            string      `json:"api" enum:"anthropic,openai,chat,gemini" doc:"The wire format: Anthropic Messages, OpenAI Responses, OpenAI Chat Completions (chat, which many servers implement), or Gemini."`
	Model          string      `json:"model" minLength:"1" maxLength:"200" doc:"The provider's name for the model."`
	URL            string      `json:"url,omitempty" maxLength:"2048" doc:"The base URL of the API. Default: the provider's public URL; required for chat."`
	Auth           *ModelAuth  `json:"auth,omitempty" doc:"The API key."`
	Private        bool        `json:"private" default:"false" doc:"Allow a URL with plain HTTP or a private address. A host name must resolve to an address in privateNetworks."`
	MaxOutput      int         `json:"maxOutput" default:"8192" minimum:"512" maximum:"1000000" doc:"Maximum number of output tokens per turn."`
	MaxTokensField string      `json:"maxTokensField,omitempty" enum:"max_tokens,max_completion_tokens" doc:"For api: chat, the request field that contains maxOutput."`
	Concurrency    int         `json:"concurrency" default:"8" minimum:"1" maximum:"10000" doc:"Maximum number of concurrent turns. Further turns wait."`
	USDPerMillion  TokenPrices `json:"usdPerMillion" default:"{}" doc:"The provider's prices per million tokens. Used for agents' limits.usd and for the costs in the console."`
}

// ModelAuth is the API key of a model.
type ModelAuth struct {
	SecretRef string `json:"secretRef" minLength:"1" doc:"The name of a secret, or a reference: env:NAME, file:path, age:path#key, or STORE:reference."`
}

// TokenPrices are prices per million tokens.
type TokenPrices struct {
	Input  *Price `json:"input,omitempty" doc:"Price of input tokens, in US dollars, as a string."`
	Cached *Price `json:"cached,omitempty" doc:"Price of cached input tokens. Default: the price of input tokens."`
	Output *Price `json:"output,omitempty" doc:"Price of output tokens."`
}

// Agent answers questions using a model and a gate's tools.
type Agent struct {
	Model        string      `json:"model" minLength:"1" doc:"The name of a model."`
	Gate         string      `json:"gate" minLength:"1" doc:"The gate whose tools the agent uses. The gate's mode is also the agent's mode. Its surface must not be execute."`
	Description  string      `json:"description,omitempty" maxLength:"4096" doc:"What kinds of questions the agent answers. Callers see this text as the description of the agent's tool."`
	Instructions string      `json:"instructions" minLength:"1" maxLength:"65536" doc:"Instructions for the model: text, or the path of a .md or .txt file, relative to this file. The file is read again for every query."`
	Hooks        string      `json:"hooks,omitempty" pattern:"^[^*?{}\\[\\]\\\\]+\\.ts$" doc:"The path of a TypeScript file with the functions Create and Next, relative to this file."`
	Grants       Grant       `json:"grants,omitzero" doc:"What the hooks can access."`
	Delegates    []string    `json:"delegates,omitempty" maxItems:"32" doc:"Agents that the hooks can delegate a query to."`
	Limits       AgentLimits `json:"limits" default:"{}" doc:"Limits for a query, including all agents that it is delegated to."`
	QueryUSD     *Price      `json:"queryUsd,omitempty" doc:"Price of a response at an execute gate, in US dollars, as a string. Questions that the agent can't answer cost nothing."`
}

// AgentLimits limits a query.
type AgentLimits struct {
	Calls        int      `json:"calls" default:"100" minimum:"1" maximum:"100" doc:"Maximum number of calls."`
	Turns        int      `json:"turns" default:"30" minimum:"2" maximum:"200" doc:"Maximum number of model turns."`
	Time         Duration `json:"time" default:"3m" doc:"Maximum duration, 1s to 30m. After 80% of this time, the model must answer."`
	InputTokens  int64    `json:"inputTokens" default:"400000" minimum:"1000" maximum:"100000000" doc:"Maximum number of input tokens across all turns."`
	OutputTokens int64    `json:"outputTokens" default:"20000" minimum:"1024" maximum:"10000000" doc:"Maximum number of output tokens across all turns."`
	USD          *Price   `json:"usd,omitempty" doc:"Maximum cost of the model, in US dollars, as a string. Requires the model's usdPerMillion. Default: no limit."`
	Parallel     int      `json:"parallel" default:"8" minimum:"1" maximum:"64" doc:"Maximum number of concurrent calls."`
}

const maxAgentTime = 30 * time.Minute

var agentName = regexp.MustCompile(`^[a-z]([a-z0-9_-]{0,30}[a-z0-9])?$`)

func (c *Config) checkAgents(report reportFunc) {
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		m := c.Models[name]
		at := func(message string, steps ...string) { report(message, append([]string{"models", name}, steps...)...) }
		if m.Auth != nil {
			c.checkSecret(m.Auth.SecretRef, func(message string) { at(message, "auth", "secretRef") })
		}
		for key, price := range map[string]*Price{"input": m.USDPerMillion.Input, "cached": m.USDPerMillion.Cached, "output": m.USDPerMillion.Output} {
			if price != nil && price.OptOut {
				at("must be an amount such as 0.25", "usdPerMillion", key)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a := c.Agents[name]
		c.checkAgent(name, &a, func(message string, steps ...string) { report(message, append([]string{"agents", name}, steps...)...) })
	}
	for _, name := range slices.Sorted(maps.Keys(c.Gates)) {
		for _, agent := range c.Gates[name].Agents {
			if _, ok := c.Agents[agent]; !ok {
				report("unknown agent"+spelling.DidYouMean(agent, slices.Collect(maps.Keys(c.Agents))), "gates", name, "agents")
			}
		}
	}
}

func (c *Config) checkAgent(name string, a *Agent, at reportFunc) {
	if !agentName.MatchString(name) {
		at("invalid agent name: use a-z, 0-9, - and _, starting with a letter")
	}
	if t := a.Limits.Time.Std(); t < time.Second || t > maxAgentTime {
		at("must be between 1s and 30m", "limits", "time")
	}
	if c.Gates[a.Gate].Surface == toolyard.Execute {
		at("is an execute gate, where callers pay for every call that the agent makes: set the gate's surface to answer, or use another gate", "gate")
	}
	if limit := a.Limits.USD; limit != nil && limit.USD > 0 {
		if m, ok := c.Models[a.Model]; ok && (m.USDPerMillion.Input == nil || m.USDPerMillion.Output == nil) {
			at("requires the model's prices: set models."+a.Model+".usdPerMillion", "limits", "usd")
		}
	}
	for _, to := range a.Delegates {
		other, ok := c.Agents[to]
		switch {
		case !ok:
			at("unknown agent "+to+spelling.DidYouMean(to, slices.Collect(maps.Keys(c.Agents))), "delegates")
		case to == name:
			at("refers to the agent itself", "delegates")
		case c.Gates[a.Gate].Mode == toolyard.Read && c.Gates[other.Gate].Mode == toolyard.Write:
			at("refers to "+to+", which can write; this agent is read-only", "delegates")
		default:
			if path := c.agentPath(to, name, nil); path != nil {
				at("creates a cycle: "+to+" can call back to this agent: "+
					strings.Join(append([]string{name}, path...), " → ")+". Remove "+to+
					" here, or remove another agent in the cycle from delegates", "delegates")
				return
			}
		}
	}
	for _, offered := range c.Gates[a.Gate].Agents {
		if path := c.agentPath(offered, name, nil); path != nil {
			at("lets the agent call itself through this gate: "+strings.Join(append([]string{name}, path...), " → ")+
				". Remove it from gates."+a.Gate+".agents", "gate")
			return
		}
	}
}

// AgentPaths returns the paths from an agent to each agent that its queries can reach, by
// delegation or because its gate offers the other agent. They are sorted by length; the first is
// the agent itself.
func (c *Config) AgentPaths(name string) [][]string {
	paths, seen := [][]string{{name}}, map[string]bool{name: true}
	for i := 0; i < len(paths); i++ {
		a := c.Agents[paths[i][len(paths[i])-1]]
		for _, next := range slices.Concat(a.Delegates, c.Gates[a.Gate].Agents) {
			if !seen[next] {
				seen[next] = true
				paths = append(paths, append(slices.Clone(paths[i]), next))
			}
		}
	}
	return paths
}

// agentPath returns a path by which an agent reaches another through gates or delegation, or nil if
// there is none.
func (c *Config) agentPath(from, to string, visited []string) []string {
	if from == to {
		return []string{to}
	}
	if slices.Contains(visited, from) {
		return nil
	}
	a := c.Agents[from]
	for _, next := range slices.Concat(c.Gates[a.Gate].Agents, a.Delegates) {
		if path := c.agentPath(next, to, append(visited, from)); path != nil {
			return append([]string{from}, path...)
		}
	}
	return nil
}
