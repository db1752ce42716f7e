package windows

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// localSystem is the account name of LocalSystem; the service manager keeps it untranslated ("LocalSystem Account").
const localSystem = "LocalSystem"

// Limits of the service manager: names (CreateServiceW: 256 characters), and the buffer of QueryServiceConfigW, which holds
// at most 8 KiB in all; a service beyond that could be made and never be read back.
const (
	maxServiceName   = 256
	maxServiceConfig = 8 << 10
	// serviceConfigHeader is sizeof(QUERY_SERVICE_CONFIGW) on 64 bits.
	serviceConfigHeader = 64
)

// errServiceConfig: a configuration that the service manager cannot keep.
var errServiceConfig = errors.New("service configuration is not valid")

// checkService refuses what the service manager would refuse, cut or be unable to give back. line is the command line.
func checkService(c system.ServiceConfig, line string) error {
	if err := checkServiceName(c.Name); err != nil {
		return err
	}
	units := len(utf16.Encode([]rune(line + c.DisplayName + localSystem)))
	for _, d := range c.DependsOn {
		if err := checkServiceName(d); err != nil {
			return fmt.Errorf("dependency: %w", err)
		}
		units += len(utf16.Encode([]rune(d))) + 1
	}
	const terminators = 5 // command line, display name, account, empty group, end of the dependencies
	if size := serviceConfigHeader + 2*(units+terminators); size > maxServiceConfig {
		return fmt.Errorf("%w: %s: command line, names and dependencies take %d bytes, at most %d can be read back",
			errServiceConfig, c.Name, size, maxServiceConfig)
	}
	for _, text := range []string{c.DisplayName, c.Description} {
		if strings.ContainsRune(text, 0) {
			return fmt.Errorf("%w: %s: a text holds a NUL", errServiceConfig, c.Name)
		}
	}
	_, err := environmentBlock(c.Env)
	return err
}

// checkServiceName refuses what CreateServiceW refuses, and what would lead its registry key elsewhere.
func checkServiceName(name string) error {
	if name == "" || len(utf16.Encode([]rune(name))) > maxServiceName || strings.ContainsAny(name, "/\\\x00") {
		return fmt.Errorf("%w: name %q", errServiceConfig, name)
	}
	return nil
}

// multiString encodes a double NUL terminated list. The empty list is two NULs: ChangeServiceConfigW takes a null pointer
// for "leave as it is".
func multiString(list []string) []uint16 {
	var out []uint16
	for _, s := range list {
		out = append(append(out, utf16.Encode([]rune(s))...), 0)
	}
	if len(out) == 0 {
		out = append(out, 0)
	}
	return append(out, 0)
}

// environmentBlock returns the strings of a service's Environment value (REG_MULTI_SZ), whose content the service
// manager hands over as it is, without expanding %names%.
func environmentBlock(env []plan.EnvVar) ([]string, error) {
	var out []string
	for _, e := range env {
		if err := checkEnvName(e.Name); err != nil {
			return nil, err
		}
		if strings.ContainsRune(e.Value, 0) {
			return nil, fmt.Errorf("variable %s: value holds a NUL", e.Name)
		}
		out = append(out, e.Name+"="+e.Value)
	}
	return out, nil
}

// environmentFrom is the reverse of environmentBlock; strings that are no assignment are left out.
func environmentFrom(block []string) []plan.EnvVar {
	var out []plan.EnvVar
	for _, s := range block {
		if name, value, ok := strings.Cut(s, "="); ok && name != "" {
			out = append(out, plan.EnvVar{Name: name, Value: value})
		}
	}
	return out
}

// recoveryAction is one SC_ACTION; kind is SC_ACTION_TYPE.
type recoveryAction struct {
	kind  int
	delay time.Duration
}

// actionRestart is SC_ACTION_RESTART.
const actionRestart = 1

// recoveryActions returns the actions of r and the seconds after which failures are forgotten. No actions: no recovery.
func recoveryActions(r *plan.Recovery) ([]recoveryAction, uint32, error) {
	if r == nil || len(r.RestartDelaySeconds) == 0 {
		return nil, 0, nil
	}
	// SC_ACTION.Delay is milliseconds in 32 bits.
	const maxDelay = math.MaxUint32 / 1000
	var out []recoveryAction
	for _, s := range r.RestartDelaySeconds {
		if s < 0 || s > maxDelay {
			return nil, 0, fmt.Errorf("%w: restart delay of %d s", errServiceConfig, s)
		}
		out = append(out, recoveryAction{kind: actionRestart, delay: time.Duration(s) * time.Second})
	}
	if r.ResetSeconds < 0 || r.ResetSeconds > math.MaxInt32 {
		return nil, 0, fmt.Errorf("%w: failure count reset after %d s", errServiceConfig, r.ResetSeconds)
	}
	return out, uint32(r.ResetSeconds), nil
}

// recoveryFrom is the reverse of recoveryActions: nil for no actions, and for any that a plan cannot express (reboot, run a
// command, parts of a second), so that a comparison sees a difference.
func recoveryFrom(actions []recoveryAction, reset uint32) *plan.Recovery {
	if len(actions) == 0 || reset > math.MaxInt32 {
		return nil
	}
	r := &plan.Recovery{ResetSeconds: int(reset)}
	for _, a := range actions {
		if a.kind != actionRestart || a.delay%time.Second != 0 {
			return nil
		}
		r.RestartDelaySeconds = append(r.RestartDelaySeconds, int(a.delay/time.Second))
	}
	return r
}

// exitCode returns a stopped service's exit code: the service's own where Windows says that there is one. A service that
// has not run since boot has none (1077 ERROR_SERVICE_NEVER_STARTED).
func exitCode(win32Code, specific uint32) uint32 {
	switch win32Code {
	case codeServiceSpecific:
		return specific
	case codeServiceNeverStarted:
		return 0
	}
	return win32Code
}

// stopUnderWay decides a refused stop: 1061 ERROR_SERVICE_CANNOT_ACCEPT_CTRL of a service that is stopping already is
// what was asked for.
func stopUnderWay(code uint32, state system.ServiceState) bool {
	const cannotAcceptControl = 1061
	return code == cannotAcceptControl && state == system.ServiceStopPending
}
