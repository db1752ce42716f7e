package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

func TestParseJournal(t *testing.T) {
	line := func(seq int) string { return fmt.Sprintf(`{"seq":%d,"code":"RunStarted"}`, seq) }
	for _, tc := range []struct {
		name, in string
		want     []int64
	}{
		{"empty", "", nil},
		{"whole", line(1) + "\n" + line(2) + "\n", []int64{1, 2}},
		{"torn last line", line(1) + "\n" + line(2)[:10], []int64{1}},
		{"last line without its end", line(1) + "\n" + line(2), []int64{1}},
		{"torn line in the middle", line(1) + "\n{\"seq\":2\n" + line(3) + "\n", []int64{1, 3}},
		{"zeros after a power cut", line(1) + "\n" + strings.Repeat("\x00", 40) + "\n" + line(2) + "\n", []int64{1, 2}},
		{"number that does not grow", line(2) + "\n" + line(2) + "\n" + line(1) + "\n" + line(3) + "\n", []int64{2, 3}},
		{"line over its limit", line(1) + "\n{\"seq\":2,\"code\":\"x\",\"detail\":\"" + strings.Repeat("x", plan.MaxLine) + "\"}\n" + line(3) + "\n", []int64{1, 3}},
		{"no code", `{"seq":1}` + "\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []int64
			for _, e := range ParseJournal([]byte(tc.in)) {
				got = append(got, e.Seq)
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("entries %v, want %v", got, tc.want)
			}
		})
	}
}

// FuzzJournal: whatever a crash has left, numbers grow, an entry holds no more than its line, and what was read is read again the same.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"seq":1,"code":"Accepted"}` + "\n" + `{"seq":2,"co`))
	f.Add([]byte("\n\n{}\n"))
	f.Add([]byte(`{"seq":1,"time":"2026-11-30T12:00:00Z","generation":3,"digest":"d","step":"s","index":1,"total":2,"code":"StepFailed","detail":"x","millis":7,"bootID":"b"}` + "\n\x00\x00\n" + `{"seq":9223372036854775807,"code":"RunDone"}` + "\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries := ParseJournal(b)
		var again []byte
		last := int64(0)
		short := true
		for _, e := range entries {
			if e.Seq <= last || e.Code == "" {
				t.Fatalf("number %d, code %q behind %d", e.Seq, e.Code, last)
			}
			last = e.Seq
			// An escape of six bytes may stand for a character of three, and no other way round.
			if n := len(e.Detail) + len(e.Code) + len(e.Step) + len(e.Digest) + len(e.BootID); n > 3*plan.MaxLine {
				t.Fatalf("an entry holds %d bytes", n)
			}
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			short = short && len(line) <= plan.MaxLine
			again = append(append(again, line...), '\n')
		}
		derive(sight{had: true}, entries)
		back := ParseJournal(again)
		if len(back) > len(entries) {
			t.Errorf("%d entries became %d", len(entries), len(back))
		}
		if d := cmp.Diff(entries, back); short && d != "" {
			t.Errorf("read again otherwise: %s", d)
		}
	})
}

func withJournal(t *testing.T, f func(*testing.T, *rig, *journal)) {
	t.Helper()
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.must(r.a.secureRoot(t.Context()))
		j, err := r.a.openJournal()
		r.must(err)
		f(t, r, j)
	})
}

// TestJournalRotates: it stays bounded, keeps the newest entries and goes on counting.
func TestJournalRotates(t *testing.T) {
	withJournal(t, func(t *testing.T, r *rig, j *journal) {
		const n = 2000
		for range n {
			r.must(j.add(plan.Entry{Code: CodeStepInSync, Digest: strings.Repeat("a", 64), Detail: strings.Repeat("x", 200)}))
		}
		sizes := journalSizes(r.a.sys.Files)
		if sizes[0] > maxJournal || sizes[1] > maxJournal || sizes[0] == 0 {
			t.Errorf("sizes %v", sizes)
		}
		list := r.journal()
		if lastSeq(list) != n || len(list) < 500 || list[0].Seq != n-int64(len(list))+1 {
			t.Errorf("%d entries, from %d to %d", len(list), list[0].Seq, lastSeq(list))
		}
		again, err := r.a.openJournal()
		r.must(err)
		r.must(again.add(plan.Entry{Code: CodeRunDone}))
		if got := lastSeq(r.journal()); got != n+1 {
			t.Errorf("number %d", got)
		}
	})
}

// TestJournalAfterTornLine: the entry behind a torn one is read.
func TestJournalAfterTornLine(t *testing.T) {
	withJournal(t, func(t *testing.T, r *rig, j *journal) {
		r.must(j.add(plan.Entry{Code: CodeAccepted}))
		b, err := r.m.ReadFile(rooted(journalFile))
		r.must(err)
		r.write(rooted(journalFile), string(b)+`{"seq":2,"code":"RunSt`)
		again, err := r.a.openJournal()
		r.must(err)
		r.must(again.add(plan.Entry{Code: CodeRunDone}))
		if got := r.codes(); fmt.Sprint(got) != "[Accepted RunDone]" {
			t.Errorf("codes %v", got)
		}
	})
}

// TestJournalAfterFailedWrite: half a line from a full disk does not spoil the next one.
func TestJournalAfterFailedWrite(t *testing.T) {
	withJournal(t, func(t *testing.T, r *rig, j *journal) {
		r.must(j.add(plan.Entry{Code: CodeAccepted}))
		r.m.FillDisk(20)
		r.wants(j.add(plan.Entry{Code: CodeRunStarted}), system.ErrDiskFull)
		r.m.FillDisk(1 << 20)
		r.must(j.add(plan.Entry{Code: CodeRunDone}))
		if got := r.codes(); fmt.Sprint(got) != "[Accepted RunDone]" {
			t.Errorf("codes %v", got)
		}
	})
}

func TestReserve(t *testing.T) {
	withJournal(t, func(t *testing.T, r *rig, j *journal) {
		r.a.fillReserve(t.Context())
		r.m.FillDisk(0)
		r.must(j.add(plan.Entry{Code: CodeDiskFull}))
		if got := r.codes(); fmt.Sprint(got) != "[DiskFull]" {
			t.Errorf("codes %v", got)
		}
	})
}

func TestDetail(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                     "plain",
		"Zugriff verweigert: ÉTAT":  "Zugriff verweigert: ?TAT",
		"two\r\nlines\tand a \x00 ": "two  lines and a ? ",
		"bad \xff\xfe bytes":        "bad ?? bytes",
	} {
		if got := Detail(in); got != want {
			t.Errorf("Detail(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Detail(strings.Repeat("x", 10000)); len(got) != plan.MaxDetail {
		t.Errorf("%d bytes", len(got))
	}
}

func TestASCIIJSON(t *testing.T) {
	in := map[string]string{"k": "é 日本 😀 \xff <&>"}
	b, err := ASCIIJSON(in)
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.IndexFunc(b, func(r rune) bool { return r > '~' || r < ' ' }); i >= 0 {
		t.Errorf("not ASCII at %d: %q", i, b)
	}
	var out map[string]string
	if err := json.Unmarshal(b, &out); err != nil || out["k"] != "é 日本 😀 \ufffd <&>" {
		t.Errorf("read back as %q, %v", out["k"], err)
	}
}
