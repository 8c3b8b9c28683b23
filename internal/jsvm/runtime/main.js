// Everything that a script finds beside the language itself.
import "./core.js";
import "./web/index.js";
import "./intl.js";
import "./node/index.js";
