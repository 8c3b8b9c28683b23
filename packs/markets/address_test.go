package markets

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseAddress(t *testing.T) {
	for _, good := range []string{ // examples from EIP-55
		"0x52908400098527886E0F7030069857D2E4169EE7", "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
		"0xde709f2102306220921060314715629080e2fb77", "0x27b1fdb04752bbc536007a920d24acb045561c26",
		annAddress, bobAddress, "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
	} {
		for _, text := range []string{good, strings.ToLower(good), "0x" + strings.ToUpper(good[2:])} {
			if got, err := ParseAddress(text); err != nil || got != good {
				t.Errorf("%s: %s, %v", text, got, err)
			}
		}
	}
	for _, bad := range []string{
		"", "0x", annAddress[2:], annAddress[:41], annAddress + "0", " " + annAddress, annAddress + "\n", "0X" + annAddress[2:],
		strings.Replace(annAddress, "A", "a", 1), "0x" + strings.Repeat("g", 40), "0x" + strings.Repeat("é", 20), "ann.eth",
	} {
		if got, err := ParseAddress(bad); err == nil {
			t.Errorf("%q was taken for %s", bad, got)
		}
	}
}

// A letter in the wrong case is always detected.
func TestChecksum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address, err := ParseAddress("0x" + rapid.StringMatching(`[0-9a-f]{40}`).Draw(t, "digits"))
		if err != nil {
			t.Fatal(err)
		}
		i := rapid.IntRange(2, 41).Draw(t, "at")
		swapped := []byte(address)
		if swapped[i] >= 'A' {
			swapped[i] ^= 'a' - 'A'
		}
		got, err := ParseAddress(string(swapped))
		plain := string(swapped[2:]) == strings.ToLower(address[2:]) || string(swapped[2:]) == strings.ToUpper(address[2:])
		if ok := string(swapped) == address || plain; ok != (err == nil) || ok && got != address {
			t.Fatalf("%s as %s: %s, %v", address, swapped, got, err)
		}
	})
}

func FuzzAddress(f *testing.F) {
	f.Add(annAddress)
	f.Add("0x")
	f.Fuzz(func(t *testing.T, text string) {
		address, err := ParseAddress(text)
		if err != nil {
			return
		}
		if again, err := ParseAddress(address); err != nil || again != address || !strings.EqualFold(address, text) {
			t.Fatalf("%q: %s, %s, %v", text, address, again, err)
		}
	})
}
