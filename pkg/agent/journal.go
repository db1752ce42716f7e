package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// maxJournal bounds journal.jsonl, in bytes. At that size it becomes journal.1.jsonl and a new one begins, so that the two together
// take at most twice as much.
const maxJournal = 256 << 10

// ParseJournal reads journal lines. A line that is no entry is dropped: the last one may be torn by a crash, and one in the middle
// is what a torn one became when the next was appended behind it. Entries whose number does not grow are dropped as well.
func ParseJournal(b []byte) []plan.Entry {
	var out []plan.Entry
	var last int64
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		b = rest
		if !ended || len(line) > plan.MaxLine {
			continue
		}
		var e plan.Entry
		if err := json.Unmarshal(line, &e); err != nil || e.Code == "" || e.Seq <= last {
			continue
		}
		last = e.Seq
		out = append(out, e)
	}
	return out
}

// readJournal returns the entries of both journal files; none is an empty journal.
func readJournal(files system.Files) ([]plan.Entry, error) {
	var all []byte
	for _, name := range []string{journalOld, journalFile} {
		b, err := disk.Read(files, rooted(name), 2*maxJournal)
		if errors.Is(err, system.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the journal: %w", err)
		}
		// A torn line must not swallow the first one of the next file.
		all = append(append(all, b...), '\n')
	}
	return ParseJournal(all), nil
}

func lastSeq(entries []plan.Entry) int64 {
	if len(entries) == 0 {
		return 0
	}
	return entries[len(entries)-1].Seq
}

// journal is the engine's end of the journal.
type journal struct {
	a *Agent
	// boot is the boot id, which cannot change while the journal is open.
	boot string
	last plan.Entry
	size int64
	// torn is whether the file does not end with a line feed.
	torn bool
}

// openJournal reads what is there.
func (a *Agent) openJournal() (*journal, error) {
	entries, err := readJournal(a.sys.Files)
	if err != nil {
		return nil, err
	}
	j := &journal{a: a}
	if j.boot, err = a.sys.Machine.BootID(); err != nil {
		return nil, fmt.Errorf("asking for the boot id: %w", err)
	}
	if len(entries) > 0 {
		j.last = entries[len(entries)-1]
	}
	b, err := disk.Read(a.sys.Files, rooted(journalFile), 2*maxJournal)
	if err != nil && !errors.Is(err, system.ErrNotExist) {
		return nil, fmt.Errorf("reading the journal: %w", err)
	}
	j.size = int64(len(b))
	j.torn = len(b) > 0 && b[len(b)-1] != '\n'
	return j, nil
}

// add completes an entry with number, time and boot, and appends it, flushed to the disk.
func (j *journal) add(e plan.Entry) error {
	e.Seq, e.Time, e.Detail, e.BootID = j.last.Seq+1, j.a.sys.Clock.Now().UTC(), Detail(e.Detail), j.boot
	line, err := ASCIIJSON(e)
	if err != nil {
		return fmt.Errorf("encoding a journal entry: %w", err)
	}
	line = append(line, '\n')
	if j.size+int64(len(line)) > maxJournal {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	if err := j.a.withReserve(func() error { return j.write(line) }); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	j.last = e
	return nil
}

func (j *journal) rotate() error {
	err := j.a.sys.Files.Rename(rooted(journalFile), rooted(journalOld))
	if err != nil && !errors.Is(err, system.ErrNotExist) {
		return fmt.Errorf("rotating the journal: %w", err)
	}
	j.size, j.torn = 0, false
	return nil
}

func (j *journal) write(line []byte) error {
	if j.torn {
		line = append([]byte("\n"), line...)
	}
	f, err := j.a.sys.Files.Append(rooted(journalFile), plan.AccessSecret)
	if err != nil {
		return err
	}
	j.torn = true
	n, err := f.Write(line)
	j.size += int64(n)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	j.torn = false
	return nil
}

// journalSizes returns the sizes of the journal files, by which a reader sees cheaply that they have changed.
func journalSizes(files system.Files) [2]int64 {
	var out [2]int64
	for i, name := range []string{journalOld, journalFile} {
		if info, err := files.Stat(rooted(name)); err == nil {
			out[i] = info.Size
		}
	}
	return out
}
