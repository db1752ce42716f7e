package ignition

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	providerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)
	variable     = regexp.MustCompile(`\$\$|\$\{[A-Za-z_][A-Za-z0-9_]*\}`)
	bareVariable = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*$`)
	// winName is a file name that is plain on Windows and on Linux.
	winName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,126}[A-Za-z0-9_-]$`)
	// device is a name that Windows takes for a device, with any extension.
	device = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])(\.|$)`)
)

// kubeletFlags are the flags of the kubelet's unit that a Windows node shares.
type kubeletFlags struct {
	provider string
	// configPath is --cloud-config, a path on the Linux node.
	configPath string
	verbosity  *int
}

// flags reads the kubelet's flags off the unit. The last of several wins, as with the kubelet itself.
func (s service) flags() (kubeletFlags, error) {
	var out kubeletFlags
	args := s.arguments()
	provider, ok := s.expand(lastFlag(args, "cloud-provider"))
	if !ok || provider != "" && !providerName.MatchString(provider) {
		return out, fmt.Errorf("%w: --cloud-provider is not a name that stands in the unit itself", ErrUnit)
	}
	config, ok := s.expand(lastFlag(args, "cloud-config"))
	if !ok || config != "" && !strings.HasPrefix(config, "/") {
		return out, fmt.Errorf("%w: --cloud-config is not an absolute path that stands in the unit itself", ErrUnit)
	}
	out.provider, out.configPath = provider, config
	// The level of a log is not worth a failed node: one that comes from a file outside the unit counts as not given.
	level, ok := s.expand(lastFlag(args, "v"))
	if !ok || level == "" {
		return out, nil
	}
	n, err := strconv.ParseUint(level, 10, 7)
	if err != nil {
		return out, fmt.Errorf("%w: --v is not a small number", ErrUnit)
	}
	v := int(n)
	out.verbosity = &v
	return out, nil
}

// arguments are the words of argv; a word that is one bare variable ($KUBELET_ARGS) stands for the words of its value.
func (s service) arguments() []string {
	var out []string
	for _, a := range s.argv {
		if bareVariable.MatchString(a) {
			out = append(out, strings.Fields(s.env[a[1:]])...)
			continue
		}
		out = append(out, a)
	}
	return out
}

// expand fills in ${NAME}; ok is false when a variable is not set by the unit.
func (s service) expand(value string) (string, bool) {
	ok := true
	out := variable.ReplaceAllStringFunc(value, func(m string) string {
		if m == "$$" {
			return "$"
		}
		v, set := s.env[m[2:len(m)-1]]
		ok = ok && set
		return v
	})
	return out, ok
}

// lastFlag finds -name=value, --name=value and --name value.
func lastFlag(args []string, name string) string {
	out := ""
	for i, a := range args {
		flag, value, joined := strings.Cut(a, "=")
		if flag != "--"+name && flag != "-"+name {
			continue
		}
		if !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			value = args[i+1]
		}
		out = value
	}
	return out
}

// windowsName is the base name of a path if Windows can hold a file of that name.
func windowsName(path string) (string, error) {
	name := path[strings.LastIndexByte(path, '/')+1:]
	if !winName.MatchString(name) || device.MatchString(name) {
		return "", fmt.Errorf("%w: %.64q of --cloud-config is not a usable file name", ErrUnit, name)
	}
	return name, nil
}
