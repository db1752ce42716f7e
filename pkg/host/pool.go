package host

import (
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/transport"
)

const (
	// DefaultStagings is Config.Stagings when that is 0.
	DefaultStagings = 8
	defaultIdle     = 5 * time.Minute
	// defaultResting bounds what a thousand hosts with nothing to do cost: each of them is asked now and then only.
	defaultResting = 32
	// defaultAsking: more than this many at the same time take memory and are no faster.
	defaultAsking = 64
)

// AgentBinary is wmcb.exe as the operator carries it.
type AgentBinary struct {
	// Digest is the SHA-256 of the bytes, 64 lower-case hexadecimal digits; Size their number.
	Digest string
	Size   int64
	// Open returns the bytes; it is called once for each upload.
	Open func() (io.ReadCloser, error)
}

// Config is what a Pool needs. Dialer, Agent and Store must be set.
type Config struct {
	Dialer transport.Dialer
	// Opener makes first contact for VerbOpen; without one that verb fails.
	Opener transport.Opener
	Agent  AgentBinary
	Store  *payload.Store
	// Notify is called with a session's key after each change of its Snapshot that a reconcile may want to see. It must not
	// block and must not call the pool. nil tells nobody.
	Notify func(key string)
	// Now is the clock of Snapshot's times; nil is time.Now.
	Now func() time.Time
	// Stagings bounds how many sessions send payload at the same time; 0 is 8.
	Stagings int
	// IdleTimeout is how long a connection without a verb is kept; 0 is 5 minutes.
	IdleTimeout time.Duration
	// Resting bounds how many connections are kept of sessions that Rest; the one that has rested for the longest is closed first. 0 is 32.
	Resting int
	// Asking bounds how many machines that have answered are logged in to, and asked what there is to do, at the same time; 0 is 64. After a start
	// the operator has all of them to ask. A machine that does not answer takes no place, one that stalls takes it for 3 seconds.
	Asking int
	// Deadlines bound the verbs.
	Deadlines Deadlines
}

// Deadlines bound each verb, connecting included; a field that is 0 has its default. A verb that runs over ends with an Err that
// wraps transport.ErrUnreachable, and its connection is closed; what it started on the machine may go on.
type Deadlines struct {
	// Connect is 1 minute, Facts 5 minutes (an upload of the agent over a slow line), Stage 1 hour.
	Connect, Facts, Stage time.Duration
	// Apply and Follow are 1 hour: enabling a Windows feature takes many minutes.
	Apply, Follow time.Duration
	// Remove is 30 minutes, Reboot 2 minutes.
	Remove, Reboot time.Duration
	// Open is 45 minutes: Windows may take a quarter of an hour to install OpenSSH or to give up, an installer as long.
	Open time.Duration
	// Silence is how long a running agent may say nothing before its connection is taken for lost, 8 seconds; three times that
	// before its first word.
	Silence time.Duration
}

func (d Deadlines) silence() time.Duration {
	if d.Silence > 0 {
		return d.Silence
	}
	return 8 * time.Second
}

func (d Deadlines) of(v Verb) time.Duration {
	set, def := d.Connect, time.Minute
	switch v {
	case VerbConnect:
	case VerbFacts:
		set, def = d.Facts, 5*time.Minute
	case VerbStage:
		set, def = d.Stage, time.Hour
	case VerbApply:
		set, def = d.Apply, time.Hour
	case VerbFollow:
		set, def = d.Follow, time.Hour
	case VerbRemove:
		set, def = d.Remove, 30*time.Minute
	case VerbReboot:
		set, def = d.Reboot, 2*time.Minute
	case VerbOpen:
		set, def = d.Open, 45*time.Minute
	}
	if set > 0 {
		return set
	}
	return def
}

// Pool keeps a Session for each machine. It is safe for concurrent use.
type Pool struct {
	cfg Config
	// stagings has a place for each session that may send payload.
	stagings chan struct{}
	// asking has a place for each session that has its turn.
	asking chan struct{}

	mu       sync.Mutex
	closed   bool
	sessions map[string]*Session
	// resting are the sessions that rest, the longest first.
	resting []*Session
}

// NewPool returns an empty pool.
func NewPool(c Config) *Pool {
	if c.Stagings <= 0 {
		c.Stagings = DefaultStagings
	}
	if c.IdleTimeout <= 0 {
		c.IdleTimeout = defaultIdle
	}
	if c.Resting <= 0 {
		c.Resting = defaultResting
	}
	if c.Asking <= 0 {
		c.Asking = defaultAsking
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Notify == nil {
		c.Notify = func(string) {}
	}
	return &Pool{
		cfg: c, stagings: make(chan struct{}, c.Stagings), asking: make(chan struct{}, c.Asking), sessions: map[string]*Session{},
	}
}

// Session returns the session of that key, made when there is none. After Close it returns one that starts nothing.
func (p *Pool) Session(key string) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.sessions[key]
	if !ok {
		s = &Session{key: key, pool: p, closed: p.closed}
		p.sessions[key] = s
	}
	return s
}

// Forget ends the session of that key: the verb under way is cancelled, the connection closed, and nothing of it runs any more
// when Forget returns. A later Session of the key is a new one that knows nothing.
func (p *Pool) Forget(key string) {
	p.mu.Lock()
	s := p.sessions[key]
	delete(p.sessions, key)
	p.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// ForgetOthers forgets every session whose key begins with prefix, but for the one called keep; "" keeps none.
func (p *Pool) ForgetOthers(prefix, keep string) {
	p.mu.Lock()
	var old []string
	for key := range p.sessions {
		if key != keep && strings.HasPrefix(key, prefix) {
			old = append(old, key)
		}
	}
	p.mu.Unlock()
	for _, key := range old {
		p.Forget(key)
	}
}

// rest notes that a session rests, and closes the connection of the one that has rested for the longest when there are too many.
func (p *Pool) rest(s *Session) {
	p.mu.Lock()
	if slices.Contains(p.resting, s) {
		p.mu.Unlock()
		return
	}
	p.resting = append(p.resting, s)
	var oldest *Session
	if len(p.resting) > p.cfg.Resting {
		oldest = p.resting[0]
		p.resting = slices.Delete(p.resting, 0, 1)
	}
	p.mu.Unlock()
	if oldest != nil {
		oldest.expire()
	}
}

// wake notes that a session does not rest any more.
func (p *Pool) wake(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting = slices.DeleteFunc(p.resting, func(o *Session) bool { return o == s })
}

// Close ends all sessions, as Forget does. What agents have begun on machines goes on without us.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	all := p.sessions
	p.sessions = map[string]*Session{}
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(s.close)
	}
	wg.Wait()
}
