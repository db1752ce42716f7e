//go:build linux

package wine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/windowsmachine/operator/test/wine/hns"
)

// hardwareAddress is where the shims of a machine find its hardware (shim/bed.h).
const (
	hardwareAddress = "127.0.0.1:4747"
	longestMessage  = 64 << 20
)

// States of an optional feature (DismPackageFeatureState).
const (
	featureStaged    = 3
	featureInstalled = 4
	featurePending   = 5
	rebootRequired   = 3010
)

// hardware is what lies below a machine's Windows. It outlives boots.
type hardware struct {
	hns *hns.Service
	// power is called for shutdown.exe.
	power func(restart bool)
	// slowFeatures is whether a feature that is enabled needs a reboot first.
	slowFeatures bool

	mu       sync.Mutex
	features map[string]int
	rules    []string
	routing  routing
	started  []string
}

// serve answers until the listener is closed.
func (h *hardware) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			message, err := readMessage(c)
			if err != nil {
				return
			}
			// A machine that lost its power takes no answer.
			_ = writeMessage(c, h.answer(message))
		}()
	}
}

var errTooLong = errors.New("message is too long")

func readMessage(r io.Reader) (string, error) {
	var size uint32
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return "", err
	}
	if size > longestMessage {
		return "", fmt.Errorf("%w: %d bytes", errTooLong, size)
	}
	b := make([]byte, size)
	_, err := io.ReadFull(r, b)
	return string(b), err
}

func writeMessage(w io.Writer, text string) error {
	_, err := w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

func (h *hardware) answer(message string) string {
	verb, rest, _ := strings.Cut(message, "\n")
	switch verb {
	case "hns":
		f := strings.SplitN(rest, "\n", 5)
		if len(f) != 5 {
			return "80070057\n\n"
		}
		status, id, payload := h.hns.Do(f[0], f[1], f[2], f[3], f[4])
		return fmt.Sprintf("%08x\n%s\n%s", uint32(status), id, payload)
	case "started":
		return h.start(rest)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if answer, ok := h.routing.change(verb, rest); ok {
		return answer
	}
	switch verb {
	case "feature":
		return strconv.Itoa(h.feature(rest))
	case "enable-feature":
		return strconv.Itoa(h.enable(rest))
	case "rules":
		return strings.Join(h.rules, "\x1e")
	default:
		return h.changeRules(verb, rest)
	}
}

// feature returns a state, -1 for a feature that there is not.
func (h *hardware) feature(name string) int {
	if s, ok := h.features[name]; ok {
		return s
	}
	return -1
}

func (h *hardware) enable(name string) int {
	switch h.feature(name) {
	case -1:
		return -1
	case featureInstalled:
		return 0
	}
	if h.slowFeatures {
		h.features[name] = featurePending
		return rebootRequired
	}
	h.features[name] = featureInstalled
	return 0
}

// boot is what happens to the hardware when the machine comes up.
func (h *hardware) boot() error {
	h.mu.Lock()
	for name, s := range h.features {
		if s == featurePending {
			h.features[name] = featureInstalled
		}
	}
	h.routing = routing{}
	h.mu.Unlock()
	return h.hns.Boot()
}

// changeRules changes the firewall's collection. A rule is a text that begins with its name.
func (h *hardware) changeRules(verb, rest string) string {
	first, second, _ := strings.Cut(rest, "\n")
	switch verb {
	case "add-rule":
		h.rules = append(h.rules, first)
	case "replace-rule":
		if i := slices.Index(h.rules, first); i >= 0 {
			h.rules[i] = second
		}
	case "remove-rule":
		// INetFwRules.Remove takes one rule of the name.
		if i := slices.IndexFunc(h.rules, func(r string) bool { return ruleName(r) == first }); i >= 0 {
			h.rules = slices.Delete(h.rules, i, i+1)
		}
	}
	return ""
}

func ruleName(rule string) string {
	name, _, _ := strings.Cut(rule, "\x1f")
	return name
}

// start records a program that nothing should start, and answers with its exit code; shutdown.exe is the power button.
func (h *hardware) start(line string) string {
	words := strings.Fields(strings.ReplaceAll(line, `"`, ""))
	if len(words) > 0 && strings.EqualFold(path.Base(strings.ReplaceAll(words[0], `\`, "/")), "shutdown.exe") {
		h.power(slices.Contains(words, "/r"))
		return "0"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = append(h.started, line)
	return "1"
}
