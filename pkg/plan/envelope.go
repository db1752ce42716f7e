package plan

import "fmt"

// EnvelopeVersion is the version of the Envelope format.
const EnvelopeVersion = "envelope.windowsmachine.dev/v1"

// Envelope hands a plan to the agent on standard input of `wmcb apply`. It is one JSON object of at most MaxEnvelope
// bytes.
type Envelope struct {
	APIVersion string `json:"apiVersion"`
	// Host identifies the WindowsHost object (its UID). A machine that holds a plan for another host refuses this one
	// unless Adopt is set.
	Host string `json:"host"`
	// Adopt takes over a machine whose last plan came from another host object.
	Adopt bool `json:"adopt,omitempty"`
	// Generation fences: the agent refuses a plan whose generation is lower than the last accepted one, and one of the
	// same generation with another digest.
	Generation int64 `json:"generation"`
	// Order fences among the requests of one host, see Claim: the agent refuses an envelope when a request of a higher order has come before, and accepts
	// one of the same order, which is the same request sent again. 0 is that of a hand-over without an order, by hand or by an older operator.
	Order int64 `json:"order,omitempty"`
	Plan  Plan  `json:"plan"`
	// Secrets is the content of Plan.Secrets by name. A name that is absent keeps the file that is there.
	Secrets map[string][]byte `json:"secrets,omitempty"`
}

// Claim says for which host a machine is to be changed, and where the request stands among all that were made for that host. An order is recorded before
// the request is sent, and only once, so that of two requests that reach a machine the one of the lower order is the older one, whichever connection it
// comes on. The orders of two hosts have nothing to do with each other.
type Claim struct {
	// Host identifies the WindowsHost object (its UID), "" for a person at the machine.
	Host string
	// Order grows with each request; 0 is that of a request without one, which is fenced by nothing.
	Order int64
}

// Claim is that of the envelope.
func (e Envelope) Claim() Claim { return Claim{Host: e.Host, Order: e.Order} }

// Check refuses a claim that is out of bounds with ErrMalformed.
func (c Claim) Check() error {
	if len(c.Host) > maxName || !printable(c.Host) {
		return fmt.Errorf("%w: host must be at most %d printable ASCII characters", ErrMalformed, maxName)
	}
	if c.Order < 0 {
		return fmt.Errorf("%w: order %d, must not be negative", ErrMalformed, c.Order)
	}
	return nil
}
