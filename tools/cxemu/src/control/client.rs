// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The asking end: words of a person become a request, the answer is printed.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{json, Map, Value};

use super::request::Request;
use crate::args::CtlArgs;

/// An answer that takes longer means that the card hangs.
const PATIENCE: Duration = Duration::from_secs(30);

const HELP: &str = "\
counters                        everything counted
reset-counters                  count from zero again
census                          living objects by kind, firmware pages
dump [KIND [NUMBER]]            every object, one line each; e.g. dump qp 0x82
trace [N]                       the last N commands
bus                             memory maps, payload and read request in force
inject FAULT [key=value]...     qp-context qpn=, cq-context cqn=,
                                health syndrome= [reset_request=true],
                                swallow-interrupt vector= [count=], swallow-command [opcode=]
                                [count=], delay-command millis= [opcode=], fail-command status=
                                [opcode=], spurious-command-event slots=, duplicate-command-event,
                                spoil-cqe cqn= at= bits= [count=]
aer [uncorrectable=BITS] [correctable=BITS]
link up|down                    plug or pull the cable
retrain speed=GEN width=LANES   show another PCIe link
cable [loss_every=N] [loss=P] [duplicate=P] [reorder=P] [ecn=P] [delay_ms=N] [seed=N]";

/// Says one thing to the card and prints what it answers.
///
/// # Errors
/// Words without a meaning, no card, or the card's refusal.
pub fn run(args: &CtlArgs) -> Result<(), Box<dyn Error>> {
    if args.words.first().is_some_and(|word| word == "help") {
        println!("{HELP}");
        return Ok(());
    }
    let request = parse(&args.words)?;
    let where_to = args.ctl.display();
    let mut stream = UnixStream::connect(&args.ctl).map_err(|e| format!("{where_to}: {e}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    writeln!(stream, "{}", serde_json::to_string(&request)?)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let mut answer: Value = serde_json::from_str(&line)?;
    if let Some(why) = answer.get("error").and_then(Value::as_str) {
        return Err(why.into());
    }
    print(&answer["ok"].take());
    Ok(())
}

fn print(value: &Value) {
    match value {
        Value::Null => {}
        Value::Array(lines) => lines.iter().for_each(|line| match line {
            Value::String(text) => println!("{text}"),
            Value::Object(line) if line.contains_key("text") => {
                let text = line["text"].as_str().unwrap_or_default();
                println!("{} {} {text}", line["number"], line["micros"]);
            }
            other => println!("{other}"),
        }),
        other => println!("{other:#}"),
    }
}

/// Words to a request.
fn parse(words: &[String]) -> Result<Request, Box<dyn Error>> {
    let (verb, rest) = words
        .split_first()
        .ok_or("nothing to say; `help` lists what there is")?;
    let mut object = Map::new();
    object.insert("op".to_owned(), json!(verb.replace('-', "_")));
    let mut pairs = rest;
    match (verb.as_str(), rest) {
        ("trace", [last]) => {
            object.insert("last".to_owned(), number(last));
            pairs = &[];
        }
        ("dump", [kind, which @ ..]) if which.len() < 2 => {
            object.insert("kind".to_owned(), json!(kind));
            if let [which] = which {
                object.insert("number".to_owned(), number(which));
            }
            pairs = &[];
        }
        ("link", [state]) if state == "up" || state == "down" => {
            object.insert("up".to_owned(), json!(state == "up"));
            pairs = &[];
        }
        ("inject", [fault, more @ ..]) => {
            object.insert("fault".to_owned(), json!(fault.replace('-', "_")));
            pairs = more;
        }
        _ => {}
    }
    for pair in pairs {
        let (key, value) = pair
            .split_once('=')
            .ok_or(format!("`{pair}` is not key=value"))?;
        object.insert(key.to_owned(), number(value));
    }
    Ok(serde_json::from_value(Value::Object(object))?)
}

/// A number (also hexadecimal), a truth value, or text.
fn number(text: &str) -> Value {
    if let Some(hex) = text.strip_prefix("0x") {
        if let Ok(value) = u64::from_str_radix(hex, 16) {
            return json!(value);
        }
    }
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::fault::Fault;

    fn say(words: &str) -> Result<Request, String> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn words_become_requests() {
        assert_eq!(say("counters"), Ok(Request::Counters));
        assert_eq!(say("trace 5"), Ok(Request::Trace { last: Some(5) }));
        assert_eq!(say("trace"), Ok(Request::Trace { last: None }));
        let dump = |kind: Option<&str>, number| Request::Dump {
            kind: kind.map(str::to_owned),
            number,
        };
        assert_eq!(say("dump"), Ok(dump(None, None)));
        assert_eq!(say("dump qp 0x82"), Ok(dump(Some("qp"), Some(0x82))));
        assert_eq!(say("link down"), Ok(Request::Link { up: false }));
        let fault = Fault::QpContext { qpn: 0x12 };
        assert_eq!(
            say("inject qp-context qpn=0x12"),
            Ok(Request::Inject(fault))
        );
        let aer = Request::Aer {
            uncorrectable: 0x4000,
            correctable: 0,
            header: [0; 4],
        };
        assert_eq!(say("aer uncorrectable=0x4000"), Ok(aer));
    }

    #[test]
    fn the_manual_page_has_every_word() {
        let page = include_str!("../../cxemu.1");
        for line in HELP.lines().filter(|line| !line.starts_with(' ')) {
            let word = line.split(' ').next().unwrap_or_default();
            assert!(page.contains(&format!(".It Cm {word}")), "{word}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [
            "",
            "fly",
            "link sideways",
            "inject nothing",
            "inject qp-context",
            "aer x=1",
        ] {
            assert!(say(words).is_err(), "{words}");
        }
    }
}
