package plan

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
	Plan       Plan  `json:"plan"`
	// Secrets is the content of Plan.Secrets by name. A name that is absent keeps the file that is there.
	Secrets map[string][]byte `json:"secrets,omitempty"`
}
