package winrm

import (
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/windowsmachine/operator/pkg/transport"
)

// Numbers of faults (wsmerror.h of the Windows SDK).
const (
	// faultTimedOut is ERROR_WSMAN_OPERATION_TIMEDOUT: nothing came within the operation's time; the command goes on.
	faultTimedOut = 2150858793
	// Quotas: ERROR_WSMAN_QUOTA_LIMIT, _MAX_SHELLS, _MAX_OPERATIONS, _USER, _SYSTEM, _MAX_SHELLUSERS, and those of a plugin.
	faultQuotaLimit = 2150858815
	quotaFirst      = 2150859173
	quotaLast       = 2150859179
	quotaPPQFirst   = 2150859236
	quotaPPQLast    = 2150859242
	// redirectFirst and redirectLast are numbers in the midst of the quotas that are none (DIFFERENT_AUTHZ_TOKEN, REDIRECT_LOCATION_NOT_AVAILABLE).
	redirectFirst = 2150859177
	redirectLast  = 2150859178
	// faultAccessDenied is ERROR_ACCESS_DENIED.
	faultAccessDenied = 5
	// faultShells is ERROR_WSMAN_REMOTESHELLS_NOT_ALLOWED: winrs' AllowRemoteShellAccess is off.
	faultShells = 2150859180
)

// Fault is an answer of the service that is a refusal.
type Fault struct {
	// Code is the number of WSManFault, 0 when there is none.
	Code uint32
	// Subcode is the local name of the SOAP subcode, for example TimedOut or InvalidSelectors.
	Subcode string
	// Text is what the service says, cleaned and bounded; it is for people only, since Windows translates it.
	Text string
}

// Error implements error.
func (f *Fault) Error() string {
	hint := ""
	if f.Code == faultShells {
		hint = "; set AllowRemoteShellAccess (winrm/config/winrs) to true there"
	}
	return fmt.Sprintf("WinRM fault %d (%s): %s%s", f.Code, f.Subcode, f.Text, hint)
}

// Unwrap is what of transport's errors the fault is.
func (f *Fault) Unwrap() error {
	switch {
	case f.quota():
		return transport.ErrBusy
	case f.Code == faultAccessDenied:
		return transport.ErrAuth
	case f.Code == faultShells:
		return transport.ErrNoServer
	}
	return transport.ErrDisconnected
}

func (f *Fault) quota() bool {
	c := f.Code
	user := c >= quotaFirst && c <= quotaLast && (c < redirectFirst || c > redirectLast)
	return c == faultQuotaLimit || user || c >= quotaPPQFirst && c <= quotaPPQLast
}

// timedOut reports whether an error is the service's "nothing yet".
func timedOut(err error) bool {
	var f *Fault
	return errors.As(err, &f) && (f.Code == faultTimedOut || f.Code == 0 && f.Subcode == "TimedOut")
}

// State of a command that has ended (MS-WSMV 3.1.4.14).
const stateDone = "http://schemas.microsoft.com/wbem/wsman/1/windows/shell/CommandState/Done"

// envelope is what is read of an answer. Namespaces are left out: an element's place says what it is.
type envelope struct {
	Body struct {
		Fault     *xmlFault `xml:"Fault"`
		Selectors []struct {
			Name  string `xml:"Name,attr"`
			Value string `xml:",chardata"`
		} `xml:"ResourceCreated>ReferenceParameters>SelectorSet>Selector"`
		CommandID string `xml:"CommandResponse>CommandId"`
		Receive   struct {
			Streams []stream `xml:"Stream"`
			State   struct {
				CommandID string `xml:"CommandId,attr"`
				State     string `xml:"State,attr"`
				ExitCode  string `xml:"ExitCode"`
			} `xml:"CommandState"`
		} `xml:"ReceiveResponse"`
	} `xml:"Body"`
}

type stream struct {
	Name      string `xml:"Name,attr"`
	CommandID string `xml:"CommandId,attr"`
	Data      string `xml:",chardata"`
}

type xmlFault struct {
	Subcode string `xml:"Code>Subcode>Value"`
	Reason  string `xml:"Reason>Text"`
	Detail  struct {
		Fault struct {
			Code    string `xml:"Code,attr"`
			Message string `xml:"Message"`
		} `xml:"WSManFault"`
	} `xml:"Detail"`
}

// parse reads an answer; one that is a fault is an error of type *Fault.
func parse(answer []byte) (*envelope, error) {
	var e envelope
	if err := xml.Unmarshal(answer, &e); err != nil {
		return nil, fmt.Errorf("%w: %w: %w", transport.ErrDisconnected, errAnswer, err)
	}
	if f := e.Body.Fault; f != nil {
		return nil, f.fault()
	}
	return &e, nil
}

func (f *xmlFault) fault() *Fault {
	code, err := strconv.ParseUint(strings.TrimSpace(f.Detail.Fault.Code), 10, 32)
	if err != nil {
		code = 0
	}
	_, local, found := strings.Cut(strings.TrimSpace(f.Subcode), ":")
	if !found {
		local = f.Subcode
	}
	text := f.Detail.Fault.Message
	if strings.TrimSpace(text) == "" {
		text = f.Reason
	}
	return &Fault{Code: uint32(code), Subcode: clean(local), Text: clean(text)}
}

// shellID is the id of the shell that was made.
func (e *envelope) shellID() (string, error) {
	for _, s := range e.Body.Selectors {
		if s.Name == "ShellId" {
			return identifier(s.Value)
		}
	}
	return "", fmt.Errorf("%w: %w: it names no shell", transport.ErrDisconnected, errAnswer)
}

var plainID = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)

// identifier takes ids of the service, which go into later requests.
func identifier(s string) (string, error) {
	s = strings.TrimSpace(s)
	if !plainID.MatchString(s) {
		return "", fmt.Errorf("%w: %w: %q is not an id", transport.ErrDisconnected, errAnswer, clean(s))
	}
	return s, nil
}

// output is a part of what a command printed.
type output struct {
	stdout, stderr []byte
	done           bool
	exit           uint32
}

// received reads the answer of a Receive for one command.
func (e *envelope) received(command string) (output, error) {
	var out output
	for _, s := range e.Body.Receive.Streams {
		if s.CommandID != "" && !strings.EqualFold(s.CommandID, command) {
			continue
		}
		b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s.Data))
		if err != nil {
			return output{}, fmt.Errorf("%w: %w: a stream is not base64", transport.ErrDisconnected, errAnswer)
		}
		switch s.Name {
		case "stdout":
			out.stdout = append(out.stdout, b...)
		case "stderr":
			out.stderr = append(out.stderr, b...)
		}
	}
	if e.Body.Receive.State.State != stateDone {
		return out, nil
	}
	exit, err := exitCode(e.Body.Receive.State.ExitCode)
	out.done, out.exit = true, exit
	return out, err
}

// exitCode reads a number that Windows prints with or without its sign.
func exitCode(text string) (uint32, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < -1<<31 || n >= 1<<32 {
		return 0, fmt.Errorf("%w: %w: %q is not an exit code", transport.ErrDisconnected, errAnswer, clean(text))
	}
	return uint32(n), nil
}

// clean bounds a text of the machine and leaves printable ASCII.
func clean(s string) string {
	const limit = 256
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > limit {
		s = s[:limit] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
