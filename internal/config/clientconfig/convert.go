package clientconfig

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// conversion converts one server to an entry in toolyard.yaml.
type conversion struct {
	t        *Translator
	id       string
	secrets  []yardSecret
	literals map[string]string
	notes    []string
	problem  string // reason why the server cannot be imported
}

// fields returns a server's entry in toolyard.yaml.
func (c *conversion) fields(s *Server) (fields []field) {
	add := func(key string, value any, when bool) {
		if when {
			fields = append(fields, field{key, value})
		}
	}
	if s.Transport == Stdio {
		env := c.values(s.Env)
		add("command", c.expand(s.Command), true)
		add("args", c.args(s.Args), len(s.Args) > 0)
		add("dir", c.expand(s.Dir), s.Dir != "")
		add("env", env, len(env) > 0)
		return fields
	}
	headers, bearer := c.headers(s.Headers)
	add("url", c.url(s.URL), true)
	add("transport", SSE, s.Transport == SSE)
	add("headers", headers, len(headers) > 0)
	add("auth", []field{{"type", "bearer"}, {"secretRef", bearer}}, bearer != "")
	return fields
}

func (c *conversion) refuse(err error) {
	if c.problem == "" && err != nil {
		c.problem = err.Error()
	}
}

// reference is a parsed ${...} expression.
type reference struct {
	variable    string // environment variable
	fallback    string
	hasFallback bool
	asked       string // ID of an input that the client prompts for
	text        string // resolved text
}

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	nameRest     = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// variable derives the name of an environment variable.
func variable(parts ...string) string {
	name := strings.ToUpper(strings.Trim(nameRest.ReplaceAllString(strings.Join(parts, "_"), "_"), "_"))
	if name == "" || name[0] <= '9' {
		return "_" + name
	}
	return name
}

// resolve parses a reference from any client. Unknown references, and those that have a different
// meaning in toolyard.yaml, are errors.
func (t *Translator) resolve(expression string) (reference, error) {
	switch expression {
	case "workspaceFolder", "workspaceRoot":
		return reference{text: t.Project}, nil
	case "workspaceFolderBasename":
		return reference{text: filepath.Base(t.Project)}, nil
	case "userHome":
		return reference{text: t.Home}, nil
	case "pathSeparator", "/":
		return reference{text: string(filepath.Separator)}, nil
	}
	if id, ok := strings.CutPrefix(expression, "input:"); ok && id != "" {
		return reference{variable: variable(id), asked: id}, nil
	}
	name, fallback, has := strings.Cut(strings.TrimPrefix(expression, "env:"), ":-")
	if !variableName.MatchString(name) || strings.ContainsAny(fallback, "${") {
		return reference{}, fmt.Errorf("${%s} is not supported; add the server manually", expression)
	}
	return reference{variable: name, fallback: fallback, hasFallback: has}, nil
}

// replace rewrites the references in a text.
func (t *Translator) replace(text string, write func(reference) string) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		expression, rest, closed := strings.Cut(after, "}")
		if !closed {
			return "", errors.New("unterminated ${; add the server manually")
		}
		ref, err := t.resolve(expression)
		switch {
		case err != nil:
			return "", err
		case ref.variable != "":
			b.WriteString(write(ref))
		case strings.Contains(ref.text, "$"):
			return "", fmt.Errorf("${%s} resolves to a folder with $ in its name", expression)
		default:
			b.WriteString(ref.text)
		}
		text = rest
	}
}

// expand rewrites references in a text to those used in toolyard.yaml.
func (c *conversion) expand(text string) string {
	out, err := c.t.replace(text, func(r reference) string {
		r = c.own(r)
		if r.hasFallback && (isHarmless(r.fallback) || !secretKey.MatchString(r.variable)) {
			return "${" + r.variable + ":-" + r.fallback + "}"
		}
		c.noteMissingValue(r)
		return "${" + r.variable + "}"
	})
	c.refuse(err)
	return out
}

// values returns environment variables or headers with secrets replaced by references.
func (c *conversion) values(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for _, f := range sorted(m) {
		if c.problem != "" {
			break // the server is skipped anyway
		}
		value, _ := f.value.(string)
		out[f.key] = c.value(f.key, value)
	}
	return out
}

func (c *conversion) headers(m map[string]string) (headers map[string]string, bearer string) {
	rest := make(map[string]string, len(m))
	for _, f := range sorted(m) {
		value, _ := f.value.(string)
		token, ok := cutBearer(value)
		if !ok || !strings.EqualFold(f.key, "authorization") || bearer != "" {
			rest[f.key] = value
			continue
		}
		bearer = c.secretFor(f.key, "token", variable(c.id, "TOKEN"), token)
	}
	return c.values(rest), bearer
}

func cutBearer(value string) (token string, ok bool) {
	scheme, token, ok := strings.Cut(strings.TrimSpace(value), " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "bearer") && token != ""
}

var (
	secretKey = regexp.MustCompile(`(?i)token|secret|key|password|passwd|auth|credential|cookie`)
	// A flag concerns a secret if its name ends like this; --key-file does not.
	secretFlag = regexp.MustCompile(`(?i)(token|secret|password|passwd|api[-_]?key|access[-_]?key|credentials?|bearer)$`)
	// Formats of the keys of well-known services, and of URLs with a password.
	secretShape = regexp.MustCompile(`\b(sk|pk|rk|xai|gsk|hf|npm|glpat|dop_v1|shpat|figd|lin_api|ntn|tvly|pplx|fc|r8|ya29)[-_.][A-Za-z0-9_-]{12,}` +
		`|\b(gh[pousr]_|github_pat_|xox[abeoprs]-|xapp-|AKIA|ASIA|AIza|SG\.|dapi|AGE-SECRET-KEY-)[A-Za-z0-9_.-]{10,}` +
		`|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}|-----BEGIN [A-Z ]*PRIVATE KEY|(?i:\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,})` +
		`|[A-Za-z][A-Za-z0-9+.-]*://[^/@\s:]*:[^/@\s$]+@`)
	scheme = regexp.MustCompile(`^[A-Za-z]{1,16} $`)
)

// isHarmless reports whether a value cannot be a secret, regardless of its key.
func isHarmless(value string) bool {
	return value == "" || value == "true" || value == "false"
}

// value converts the value of an environment variable or a header. A secret is replaced with a
// reference to a secret that is read from an environment variable.
func (c *conversion) value(key, value string) string {
	if (!secretKey.MatchString(key) || isHarmless(value)) && !secretShape.MatchString(value) {
		return c.inputs(value)
	}
	if i := strings.Index(value, "${"); i >= 0 && isReference(value[i:]) && (i == 0 || scheme.MatchString(value[:i])) {
		return value[:i] + secretRef(c.secretFor(key, key, variable(key), value[i:]))
	}
	return secretRef(c.secretFor(key, key, variable(key), value))
}

// isReference reports whether a text is exactly one reference.
func isReference(text string) bool {
	return strings.HasPrefix(text, "${") && strings.Index(text, "}") == len(text)-1
}

// inputs converts a value in which only prompted inputs are secret.
func (c *conversion) inputs(value string) string {
	const begin = "${input:"
	if !strings.Contains(value, begin) {
		return c.expand(value)
	}
	before, after, _ := strings.Cut(value, begin)
	id, rest, closed := strings.Cut(after, "}")
	if !closed {
		return c.expand(value)
	}
	return c.expand(before) + secretRef(c.secretFor(id, id, variable(id), begin+id+"}")) + c.inputs(rest)
}

func secretRef(name string) string { return "${secret:" + name + "}" }

// secretFor returns the name of a secret with this value. A literal value is moved to a new
// environment variable; a reference keeps its variable.
func (c *conversion) secretFor(what, key, name, value string) string {
	literal := true
	if isReference(value) {
		ref, err := c.t.resolve(value[len("${") : len(value)-len("}")])
		c.refuse(err)
		ref = c.own(ref)
		if ref.variable != "" {
			name, literal = ref.variable, false
		}
		c.noteMissingValue(ref)
	} else if strings.Contains(value, "${") {
		_, err := c.t.replace(value, func(reference) string { return "" })
		c.refuse(err)
	}
	if literal {
		name = c.holder(name, value)
		c.note("the value of %s is not copied: set %s in Toolyard's environment", what, name)
	}
	return c.secret(key, name)
}

// own assigns a prompted input to one of this server's variables, because another client may use
// the same input ID for something else. It rejects references to another server's secret.
func (c *conversion) own(r reference) reference {
	if r.asked != "" {
		r.variable = c.holder(r.variable, "${input:"+r.asked+"}")
		return r
	}
	if _, taken := c.t.literals[r.variable]; taken {
		c.refuse(fmt.Errorf("${%s} contains another server's secret; add the server manually", r.variable))
	}
	return r
}

// maxHolders is the maximum number of names tried for one variable.
const maxHolders = 100

// holder returns the variable for a literal value. Its name starts with the server's ID, and
// neither this import, the configuration file nor the environment uses it for another value.
func (c *conversion) holder(name, value string) string {
	base := name
	if prefix := variable(c.id); name != prefix && !strings.HasPrefix(name, prefix+"_") {
		base = variable(c.id, name)
	}
	for n := 1; n < maxHolders; n++ {
		name = base
		if n > 1 {
			name = fmt.Sprintf("%s_%d", base, n)
		}
		if c.free(name, value) {
			if c.literals == nil {
				c.literals = make(map[string]string)
			}
			c.literals[name] = value
			return name
		}
	}
	c.refuse(fmt.Errorf("too many secrets would be named %s; add the server manually", base))
	return name
}

// free reports whether a variable may hold a value for this server.
func (c *conversion) free(name, value string) bool {
	if own, ok := c.literals[name]; ok {
		return own == value
	}
	if _, taken := c.t.literals[name]; taken || c.t.words[name] {
		return false
	}
	if c.t.Getenv == nil || isReference(value) { // an input's value is unknown
		return true
	}
	set, ok := c.t.Getenv(name)
	return !ok || set == value
}

// secret adds a secret that is read from an environment variable, and returns its name.
func (c *conversion) secret(key, from string) string {
	base := strings.ToLower(strings.Trim(nameRest.ReplaceAllString(c.id+"-"+key, "-"), "-"))
	source, name := "env:"+from, base
	for n := 1; n < 10; n++ {
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		i := slices.IndexFunc(c.secrets, func(s yardSecret) bool { return s.name == name })
		switch {
		case i >= 0 && c.secrets[i].source == source:
			return name
		case i < 0 && !c.t.named[name]:
			c.secrets = append(c.secrets, yardSecret{name, source})
			return name
		}
	}
	c.refuse(fmt.Errorf("too many secrets would be named %s; add the server manually", base))
	return name
}

func (c *conversion) note(format string, args ...any) {
	c.notes = append(c.notes, brief(c.id+": "+fmt.Sprintf(format, args...)))
}

// noteMissingValue adds a note about a reference whose value is not available.
func (c *conversion) noteMissingValue(r reference) {
	if r.hasFallback {
		c.note("the default value of ${%s} is not copied because it may be a secret", r.variable)
	}
	if r.asked != "" {
		c.note("the client prompts for %s: set %s in Toolyard's environment", r.asked, r.variable)
	}
}

// replaceSecret replaces a literal secret with a variable, for positions in which secret references
// are not supported.
func (c *conversion) replaceSecret(what, name, value string) string {
	name = c.holder(name, value)
	c.note("%s is not copied: set %s in Toolyard's environment", what, name)
	return "${" + name + "}"
}

// args returns the arguments with secrets replaced by variables.
func (c *conversion) args(args []string) []string {
	out := make([]string, 0, len(args))
	for i, arg := range args {
		flag, value, assigned := strings.Cut(arg, "=")
		previous := ""
		if i > 0 {
			previous = args[i-1]
		}
		what := fmt.Sprintf("argument %d", i+1)
		switch {
		case strings.Contains(arg, "${") && !secretShape.MatchString(arg):
			out = append(out, c.expand(arg))
		case assigned && secretFlag.MatchString(flag) && !isHarmless(value):
			out = append(out, flag+"="+c.replaceSecret(what, variable(flag), value))
		case strings.HasPrefix(previous, "-") && secretFlag.MatchString(previous) && !strings.HasPrefix(arg, "-") && !isHarmless(arg):
			out = append(out, c.replaceSecret(what, variable(previous), arg))
		case isSecretHeader(arg) || secretShape.MatchString(arg):
			out = append(out, c.replaceSecret(what, variable(c.id, "ARG", fmt.Sprint(i+1)), arg))
		default:
			out = append(out, arg)
		}
	}
	return out
}

// isSecretHeader reports whether an argument is a secret header, such as Authorization: Bearer x.
func isSecretHeader(arg string) bool {
	name, value, ok := strings.Cut(arg, ":")
	return ok && strings.TrimSpace(value) != "" && !strings.HasPrefix(value, "//") && !strings.ContainsAny(name, " /\\") && secretKey.MatchString(name)
}

var (
	urlUser     = regexp.MustCompile(`^https?://[^/?#]*@`)
	urlQuery    = regexp.MustCompile(`([?&])([^=&#]+)=([^&#]*)`)
	urlVariable = regexp.MustCompile(`\$\{([^}]*)\}`)
	// A long random part of a path is probably an access token, and so is the part after such a
	// word.
	urlOpaque   = regexp.MustCompile(`[A-Za-z0-9_=-]{32,}`)
	urlRandom   = regexp.MustCompile(`^[A-Za-z0-9]{16,}$`)
	urlSecretOf = regexp.MustCompile(`(?i)^((access|api|auth)[-_]?)?(token|key|secret)s?$`)
)

// url replaces secrets in a URL's path and query with variables.
func (c *conversion) url(text string) string {
	for _, m := range urlVariable.FindAllStringSubmatch(text, -1) {
		if secretKey.MatchString(m[1]) {
			c.note("its URL sends ${%s} to %s", m[1], urlHost(text))
		}
	}
	if urlUser.MatchString(text) {
		c.refuse(errors.New("the URL contains a username or password; use a header instead"))
	}
	text, _, _ = strings.Cut(text, "#") // fragments are not sent
	path, query, hasQuery := strings.Cut(text, "?")
	hidden := func(part string) string {
		return c.replaceSecret("part of its URL", variable(c.id, "URL", "SECRET"), part)
	}
	path = secretShape.ReplaceAllStringFunc(path, hidden)
	path = urlOpaque.ReplaceAllStringFunc(path, func(part string) string {
		if !strings.ContainsAny(part, "0123456789") {
			return part
		}
		return hidden(part)
	})
	segments := strings.Split(path, "/")
	for i := 3; i < len(segments); i++ { // skips the scheme and the host
		named := urlSecretOf.MatchString(segments[i-1]) && segments[i] != "" && !strings.Contains(segments[i], "${")
		if named || isRandom(segments[i]) {
			segments[i] = hidden(segments[i])
		}
	}
	path = strings.Join(segments, "/")
	if hasQuery {
		path += urlQuery.ReplaceAllStringFunc("?"+query, c.urlPair)
	}
	return c.expand(path)
}

// isRandom reports whether digits, upper case and lower case alternate as they do in random text,
// unlike in words, versions and dates.
func isRandom(part string) bool {
	if !urlRandom.MatchString(part) || !strings.ContainsAny(part, "0123456789") {
		return false
	}
	kind := func(b byte) int { // in the order of ASCII
		switch {
		case b <= '9':
			return 0
		case b <= 'Z':
			return 1
		}
		return 2
	}
	changes := 0
	for i := 1; i < len(part); i++ {
		if kind(part[i]) != kind(part[i-1]) {
			changes++
		}
	}
	return changes >= 5
}

func (c *conversion) urlPair(pair string) string {
	m := urlQuery.FindStringSubmatch(pair)
	secret := secretKey.MatchString(m[2]) && !strings.Contains(m[3], "${") && !isHarmless(m[3])
	if !secret && !secretShape.MatchString(m[3]) {
		return pair
	}
	return m[1] + m[2] + "=" + c.replaceSecret(m[2]+" in its URL", variable(m[2]), m[3])
}

func urlHost(text string) string {
	_, host, _ := strings.Cut(text, "://")
	host, _, _ = strings.Cut(host, "/")
	return host
}
