package hyperliquid

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// testKey is the key used for the test vectors in the official Python SDK (tests/signing_test.py at
// 7ee976d).
const testKey = "0x0123456789012345678901234567890123456789012345678901234567890123"

// packed is an action in the test vectors that the client does not send.
type packed func(p *packer)

func (f packed) pack(p *packer) { f(p) }

func limitOrder(cloid string) action {
	return orderAction{Type: "order", Grouping: groupNone, Orders: []orderWire{{
		Asset: 1, Buy: true, Price: "100", Size: "100", Type: orderType{Limit: &limitWire{TIF: "Gtc"}}, Cloid: cloid,
	}}}
}

// hexWord returns a vector's digits, which have no leading zeros, as 32 bytes.
func hexWord(digits string) string { return "0x" + strings.Repeat("0", 64-len(digits)) + digits }

func TestSignaturesMatchOfficialVectors(t *testing.T) {
	dummy := packed(func(p *packer) {
		p.mapOf(2)
		p.member("type", "dummy")
		p.text("num")
		p.uint(1000 * 1e8)
	})
	stop := orderAction{Type: "order", Grouping: groupNone, Orders: []orderWire{{
		Asset: 1, Buy: true, Price: "100", Size: "100",
		Type: orderType{Trigger: &triggerWire{IsMarket: true, TriggerPx: "103", TPSL: "sl"}},
	}}}
	subAccount := packed(func(p *packer) {
		p.mapOf(2)
		p.member("type", "createSubAccount")
		p.member("name", "example")
	})
	transfer := packed(func(p *packer) {
		p.mapOf(4)
		p.member("type", "subAccountTransfer")
		p.member("subAccountUser", "0x1d9470d4b963f552e6f671a81619d395877bf409")
		p.text("isDeposit")
		p.bool(true)
		p.text("usd")
		p.uint(10)
	})
	type rsv struct {
		r, s string
		v    int
	}
	for name, test := range map[string]struct {
		action           action
		vault            string
		mainnet, testnet rsv
	}{
		"number": {
			dummy, "",
			rsv{"53749d5b30552aeb2fca34b530185976545bb22d0b3ce6f62e31be961a59298", "755c40ba9bf05223521753995abb2f73ab3229be8ec921f350cb447e384d8ed8", 27},
			rsv{"542af61ef1f429707e3c76c5293c80d01f74ef853e34b76efffcb57e574f9510", "17b8b32f086e8cdede991f1e2c529f5dd5297cbe8128500e00cbaf766204a613", 28},
		},
		"order": {
			limitOrder(""), "",
			rsv{"d65369825a9df5d80099e513cce430311d7d26ddf477f5b3a33d2806b100d78e", "2b54116ff64054968aa237c20ca9ff68000f977c93289157748a3162b6ea940e", 28},
			rsv{"82b2ba28e76b3d761093aaded1b1cdad4960b3af30212b343fb2e6cdfa4e3d54", "6b53878fc99d26047f4d7e8c90eb98955a109f44209163f52d8dc4278cbbd9f5", 27},
		},
		"order with cloid": {
			limitOrder("0x00000000000000000000000000000001"), "",
			rsv{"41ae18e8239a56cacbc5dad94d45d0b747e5da11ad564077fcac71277a946e3", "3c61f667e747404fe7eea8f90ab0e76cc12ce60270438b2058324681a00116da", 27},
			rsv{"eba0664bed2676fc4e5a743bf89e5c7501aa6d870bdb9446e122c9466c5cd16d", "7f3e74825c9114bc59086f1eebea2928c190fdfbfde144827cb02b85bbe90988", 28},
		},
		"vault": {
			dummy, "1719884eb866cb12b2287399b15f7db5e7d775ea",
			rsv{"3c548db75e479f8012acf3000ca3a6b05606bc2ec0c29c50c515066a326239", "4d402be7396ce74fbba3795769cda45aec00dc3125a984f2a9f23177b190da2c", 28},
			rsv{"e281d2fb5c6e25ca01601f878e4d69c965bb598b88fac58e475dd1f5e56c362b", "7ddad27e9a238d045c035bc606349d075d5c5cd00a6cd1da23ab5c39d4ef0f60", 27},
		},
		"stop": {
			stop, "",
			rsv{"98343f2b5ae8e26bb2587daad3863bc70d8792b09af1841b6fdd530a2065a3f9", "6b5bb6bb0633b710aa22b721dd9dee6d083646a5f8e581a20b545be6c1feb405", 27},
			rsv{"971c554d917c44e0e1b6cc45d8f9404f32172a9d3b3566262347d0302896a2e4", "206257b104788f80450f8e786c329daa589aa0b32ba96948201ae556d5637eac", 28},
		},
		"text": {
			subAccount, "",
			rsv{"51096fe3239421d16b671e192f574ae24ae14329099b6db28e479b86cdd6caa7", "b71f7d293af92d3772572afb8b102d167a7cef7473388286bc01f52a5c5b423", 27},
			rsv{"a699e3ed5c2b89628c746d3298b5dc1cca604694c2c855da8bb8250ec8014a5b", "53f1b8153a301c72ecc655b1c315d64e1dcea3ee58921fd7507e35818fcc1584", 28},
		},
		"boolean": {
			transfer, "",
			rsv{"43592d7c6c7d816ece2e206f174be61249d651944932b13343f4d13f306ae602", "71a926cb5c9a7c01c3359ec4c4c34c16ff8107d610994d4de0e6430e5cc0f4c9", 28},
			rsv{"e26574013395ad55ee2f4e0575310f003c5bb3351b5425482e2969fa51543927", "efb08999196366871f919fd0e138b3a7f30ee33e678df7cfaf203e25f0a4278", 28},
		},
		"no schedule": {
			scheduleCancelAction{Type: "scheduleCancel"},
			"",
			rsv{"6cdfb286702f5917e76cd9b3b8bf678fcc49aec194c02a73e6d4f16891195df9", "6557ac307fa05d25b8d61f21fb8a938e703b3d9bf575f6717ba21ec61261b2a0", 27},
			rsv{"c75bb195c3f6a4e06b7d395acc20bbb224f6d23ccff7c6a26d327304e6efaeed", "342f8ede109a29f2c0723bd5efb9e9100e3bbb493f8fb5164ee3d385908233df", 28},
		},
		"schedule": {
			scheduleCancelAction{Type: "scheduleCancel", Time: 123456789},
			"",
			rsv{"609cb20c737945d070716dcc696ba030e9976fcf5edad87afa7d877493109d55", "16c685d63b5c7a04512d73f183b3d7a00da5406ff1f8aad33f8ae2163bab758b", 28},
			rsv{"4e4f2dbd4107c69783e251b7e1057d9f2b9d11cee213441ccfa2be63516dc5bc", "706c656b23428c8ba356d68db207e11139ede1670481a9e01ae2dfcdb0e1a678", 27},
		},
	} {
		for net, want := range map[bool]rsv{false: test.mainnet, true: test.testnet} {
			t.Run(fmt.Sprintf("%s/testnet=%v", name, net), func(t *testing.T) {
				s, err := newSigner(testKey, net)
				if err != nil {
					t.Fatal(err)
				}
				got := s.signDigest(agentDigest(s.source, actionHash(test.action, 0, test.vault, 0)))
				if got != (signature{hexWord(want.r), hexWord(want.s), want.v}) {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
		}
	}
}

func TestActionHashMatchesProduction(t *testing.T) {
	a := orderAction{Type: "order", Grouping: groupNone, Orders: []orderWire{{
		Asset: 4, Buy: true, Price: "1670.1", Size: "0.0147", Type: orderType{Limit: &limitWire{TIF: "Ioc"}},
	}}}
	const want = "0fcbeda5ae3c4950a548021552a4fea2226858c4453571bf3f24ba017eac2908"
	if got := hex.EncodeToString(actionHash(a, 1677777606040, "", 0)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPackerUsesShortestForm(t *testing.T) {
	for want, write := range map[string]func(*packer){
		"7f":                              func(p *packer) { p.uint(127) },
		"cc80":                            func(p *packer) { p.uint(128) },
		"cd0100":                          func(p *packer) { p.uint(256) },
		"ce00010000":                      func(p *packer) { p.uint(1 << 16) },
		"cf0000000100000000":              func(p *packer) { p.uint(1 << 32) },
		"8f":                              func(p *packer) { p.mapOf(15) },
		"dc0010":                          func(p *packer) { p.arrayOf(16) },
		"bf" + strings.Repeat("61", 31):   func(p *packer) { p.text(strings.Repeat("a", 31)) },
		"d920" + strings.Repeat("61", 32): func(p *packer) { p.text(strings.Repeat("a", 32)) },
	} {
		var p packer
		write(&p)
		if got := hex.EncodeToString(p.out); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestNewSignerRefusesInvalidKeysWithoutQuotingThem(t *testing.T) {
	for _, key := range []string{"", "0x12", strings.Repeat("z", 64), strings.Repeat("0", 64), strings.Repeat("f", 64), testKey + "00"} {
		_, err := newSigner(key, true)
		if err == nil || key != "" && strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", key, err)
		}
	}
	s, err := newSigner(testKey, true)
	if err != nil || s.address != "0x14791697260e4c9a71f18484c9f997b308e59325" {
		t.Errorf("address %s, %v", s.address, err)
	}
}
