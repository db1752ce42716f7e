package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Errors of Parse, ParseEnvelope and Validate that callers branch on; they are wrapped with what was found.
var (
	// ErrTooNew: a format version or a capability that this program does not know yet. A newer program does.
	ErrTooNew = errors.New("plan is too new")
	// ErrTooLarge: more bytes than the limit in limits.go.
	ErrTooLarge = errors.New("input is too large")
	// ErrMalformed: not JSON, an unknown field, a version that never was, or something behind the end.
	ErrMalformed = errors.New("input is malformed")
)

const (
	planGroup     = "plan.windowsmachine.dev/v"
	envelopeGroup = "envelope.windowsmachine.dev/v"
)

// Parse reads a Plan from JSON of at most MaxPlan bytes. Every version of the format that was ever written is accepted
// and translated to the present one; a newer one is ErrTooNew, an unknown field is ErrMalformed. Parse looks at the form
// only: what the plan asks for is judged by Validate.
func Parse(b []byte) (Plan, error) {
	if len(b) > MaxPlan {
		return Plan{}, fmt.Errorf("parsing plan: %w: %d bytes, at most %d", ErrTooLarge, len(b), MaxPlan)
	}
	p, err := parsePlan(b)
	if err != nil {
		return Plan{}, fmt.Errorf("parsing plan: %w", err)
	}
	return p, nil
}

func parsePlan(b []byte) (Plan, error) {
	var head struct {
		APIVersion string   `json:"apiVersion"`
		Requires   []string `json:"requires"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return Plan{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	n, err := version(head.APIVersion, planGroup, len(parsers()))
	if err != nil {
		return Plan{}, err
	}
	// Before the strict reading, since a plan that needs a newer agent may well have fields that this one cannot name.
	if err := knownCapabilities(head.Requires); err != nil {
		return Plan{}, err
	}
	return parsers()[n-1](b)
}

// parsers holds the reader of each format version, version 1 first; each returns a plan of the present version.
func parsers() []func([]byte) (Plan, error) {
	return []func([]byte) (Plan, error){parseV1}
}

func parseV1(b []byte) (Plan, error) {
	var p Plan
	if err := strict(b, &p); err != nil {
		return Plan{}, err
	}
	p.APIVersion = APIVersion
	return p, nil
}

// ParseEnvelope reads one Envelope of at most MaxEnvelope bytes and checks that its secrets belong to its plan. The plan
// inside may be of any version that Parse accepts.
func ParseEnvelope(r io.Reader) (Envelope, error) {
	e, err := parseEnvelope(r)
	if err != nil {
		return Envelope{}, fmt.Errorf("parsing envelope: %w", err)
	}
	return e, nil
}

func parseEnvelope(r io.Reader) (Envelope, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxEnvelope+1))
	if err != nil {
		return Envelope{}, fmt.Errorf("reading: %w", err)
	}
	if len(b) > MaxEnvelope {
		return Envelope{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxEnvelope)
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		// The cause is left out: it may quote a piece of a secret.
		return Envelope{}, fmt.Errorf("%w: not a JSON object", ErrMalformed)
	}
	if _, err := version(head.APIVersion, envelopeGroup, 1); err != nil {
		return Envelope{}, err
	}
	return parseEnvelopeV1(b)
}

func parseEnvelopeV1(b []byte) (Envelope, error) {
	var w struct {
		APIVersion string            `json:"apiVersion"`
		Host       string            `json:"host"`
		Adopt      bool              `json:"adopt"`
		Generation int64             `json:"generation"`
		Order      int64             `json:"order"`
		Plan       json.RawMessage   `json:"plan"`
		Secrets    map[string][]byte `json:"secrets"`
	}
	if err := strict(b, &w); err != nil {
		return Envelope{}, err
	}
	p, err := Parse(w.Plan)
	if err != nil {
		return Envelope{}, err
	}
	e := Envelope{
		APIVersion: EnvelopeVersion, Host: w.Host, Adopt: w.Adopt, Generation: w.Generation, Order: w.Order, Plan: p, Secrets: w.Secrets,
	}
	return e, e.check()
}

// check refuses an envelope whose own fields are out of bounds.
func (e Envelope) check() error {
	var errs []error
	if e.Host == "" {
		errs = append(errs, fmt.Errorf("%w: host must be set", ErrMalformed))
	}
	errs = append(errs, e.Claim().Check())
	if e.Generation < 1 {
		errs = append(errs, fmt.Errorf("%w: generation %d, must be at least 1", ErrMalformed, e.Generation))
	}
	known := map[string]bool{}
	for _, s := range e.Plan.Secrets {
		known[s.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(e.Secrets)) {
		content := e.Secrets[name]
		switch {
		case !known[name]:
			errs = append(errs, fmt.Errorf("%w: secret %q has no place in the plan", ErrMalformed, name))
		case len(content) > MaxSecret:
			errs = append(errs, fmt.Errorf("%w: secret %q has %d bytes, at most %d", ErrTooLarge, name, len(content), MaxSecret))
		}
	}
	return errors.Join(errs...)
}

// version returns N of "<group>N" when 1 <= N <= newest.
func version(s, group string, newest int) (int, error) {
	digits, ok := strings.CutPrefix(s, group)
	if !ok {
		return 0, fmt.Errorf("%w: apiVersion %q is not %s1", ErrMalformed, bounded(s), group)
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || digits != strconv.Itoa(n) {
		return 0, fmt.Errorf("%w: apiVersion %q", ErrMalformed, bounded(s))
	}
	if n > newest {
		return 0, fmt.Errorf("%w: apiVersion %s%d, known up to %s%d", ErrTooNew, group, n, group, newest)
	}
	return n, nil
}

func knownCapabilities(requires []string) error {
	var errs []error
	for _, c := range requires {
		if !slices.Contains(Capabilities(), c) {
			errs = append(errs, fmt.Errorf("%w: requires capability %q", ErrTooNew, bounded(c)))
		}
	}
	return errors.Join(errs...)
}

// Capabilities returns the capabilities that this version of the format can require.
func Capabilities() []string {
	return []string{CapabilityBase, CapabilityNetwork, CapabilityRoots, CapabilityExisting, CapabilityHostEndpoint, CapabilityPeers}
}

// strict decodes the one JSON value in b and refuses unknown fields and anything behind it.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return malformed(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows the end", ErrMalformed)
	}
	return nil
}

// malformed keeps of a decoding error what cannot hold a piece of a secret: names of fields, types and offsets.
func malformed(err error) error {
	var typ *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &typ):
		return fmt.Errorf("%w: field %q at byte %d is not a %s", ErrMalformed, typ.Field, typ.Offset, typ.Type)
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: syntax error at byte %d", ErrMalformed, syntax.Offset)
	default:
		return fmt.Errorf("%w: %s", ErrMalformed, bounded(err.Error()))
	}
}

// bounded shortens text of unknown origin for a message.
func bounded(s string) string {
	const limit = 120
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}
