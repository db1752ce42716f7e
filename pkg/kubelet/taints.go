package kubelet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// ErrTaint: a taint cannot be set on the node.
var ErrTaint = errors.New("node taint is not allowed")

// maxTaints bounds the taints of a node that are given to the product.
const maxTaints = 32

// Taint of a node.
type Taint struct{ Key, Value, Effect string }

// String is how --register-with-taints writes it.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

// ParseTaints reads a list as --register-with-taints takes it: key=value:effect or key:effect, separated by commas. All problems are reported
// at once.
func ParseTaints(list string) ([]Taint, error) {
	var out []Taint
	var errs []error
	for text := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		t, err := parseTaint(strings.TrimSpace(text))
		if err == nil && slices.ContainsFunc(out, func(o Taint) bool { return o.Key == t.Key && o.Effect == t.Effect }) {
			err = fmt.Errorf("%w: %q has the key and effect of another", ErrTaint, t)
		}
		errs = append(errs, err)
		out = append(out, t)
	}
	if len(out) > maxTaints {
		return nil, fmt.Errorf("%w: %d taints, at most %d", ErrTaint, len(out), maxTaints)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

func parseTaint(text string) (Taint, error) {
	pair, effect, ok := cutLast(text, ":")
	if !ok {
		return Taint{}, fmt.Errorf("%w: %.300q is not key=value:effect", ErrTaint, text)
	}
	key, value, _ := strings.Cut(pair, "=")
	t := Taint{Key: key, Value: value, Effect: effect}
	problems := slices.Concat(content.IsLabelKey(key), content.IsLabelValue(value))
	switch effect {
	case "NoSchedule", "PreferNoSchedule", "NoExecute":
	default:
		problems = append(problems, fmt.Sprintf("effect %.40q is none of NoSchedule, PreferNoSchedule, NoExecute", effect))
	}
	if len(problems) > 0 {
		return Taint{}, fmt.Errorf("%w: %.300q: %s", ErrTaint, text, strings.Join(problems, "; "))
	}
	return t, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// allTaints begins with the one that every node of the product carries from its first moment, so that Linux pods do not land on it.
func allTaints(more []Taint) []Taint {
	own := Taint{Key: "os", Value: "Windows", Effect: "NoSchedule"}
	return append([]Taint{own}, slices.DeleteFunc(slices.Clone(more), func(t Taint) bool {
		return t.Key == own.Key && t.Effect == own.Effect
	})...)
}

func taintList(more []Taint) string {
	var out []string
	for _, t := range allTaints(more) {
		out = append(out, t.String())
	}
	return strings.Join(out, ",")
}

func taintFields(more []Taint) []any {
	var out []any
	for _, t := range allTaints(more) {
		f := map[string]any{"key": t.Key, "effect": t.Effect}
		if t.Value != "" {
			f["value"] = t.Value
		}
		out = append(out, f)
	}
	return out
}
